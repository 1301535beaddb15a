"""Every answer of the API server, and every failure to give one, as one of our errors."""

from __future__ import annotations

import pytest

from fleet_app.adapters.kube_client import Kube
from fleet_app.engine.errors import ConflictError, FaultError, FleetError, NotFoundError, RequestError
from tests.kube import FakeKube, served

FAILURES: dict[str, tuple[str, type[FleetError]]] = {
    "what the server says is not there is not there": ("404", NotFoundError),
    "who was slower hears so": ("409", ConflictError),
    "a list that has changed too much to go on": ("410", ConflictError),
    "what a patch rests on does not hold": ("422", ConflictError),
    "we may not": ("403", RequestError),
    "a token that ran out": ("401", RequestError),
    "a server that fails": ("500", FaultError),
    "a server that is overloaded": ("429", FaultError),
    "a server behind a proxy that fails": ("503", FaultError),
    "a connection that breaks": ("cut", FaultError),
    "an answer that comes too late": ("hang", FaultError),
}


@pytest.mark.parametrize(("fault", "want"), FAILURES.values(), ids=FAILURES)
def test_a_failure_is_one_of_ours(fault: str, want: type[FleetError]) -> None:
    fake = FakeKube(faults=[fault], late_s=0.2)
    fake.add_node("m1")
    with served(fake) as configuration:
        kube = Kube(configuration, answer_s=0.05 if fault == "hang" else 5.0)
        with pytest.raises(FleetError) as raised:
            kube.ask(kube.core.read_node, "m1")
        kube.close()
    assert type(raised.value) is want
    assert len(fake.calls) == 1, "it is not tried again at once"


def test_an_answer_is_what_the_server_sent() -> None:
    fake = FakeKube()
    fake.put("nodes", {"metadata": {"name": "m1"}, "spec": {"newer": {"than": ["we", "know"]}}})
    with served(fake) as configuration:
        kube = Kube(configuration)
        assert kube.ask(kube.core.read_node, "m1")["spec"] == {"newer": {"than": ["we", "know"]}}
        kube.close()


def test_nobody_there_is_no_answer() -> None:
    with served(FakeKube()) as configuration:
        pass
    kube = Kube(configuration)
    with pytest.raises(FaultError, match="no answer"):
        kube.ask(kube.core.read_node, "m1")


def test_outside_of_a_pod_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(FaultError, match="no pod"):
        Kube.of_pod()


def test_a_kubeconfig_that_is_not_there(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RequestError, match="no cluster is known"):
        Kube.of_file(tmp_path / "none")
