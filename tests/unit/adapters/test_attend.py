"""What stands beside the head: duties with a dashboard, a gateway and a Kubernetes of the test's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleet_app.adapters.attend import EVERY_S, LONGEST_PAUSE_S, Attendant
from fleet_app.adapters.duties import FORGET_AFTER_S, ApplyPolicy, DeployServe, HaveArbiter, KeepGateway
from fleet_app.adapters.local_home import FleetHome
from fleet_app.adapters.proxy_pods import LOOK_EVERY, MISSED_LOOKS, LabelProxies, PodLabels
from fleet_app.engine.errors import FaultError, NotFoundError, RequestError

POLICY = (Path(__file__).parents[3] / "clusters" / "small.yaml").read_text(encoding="utf-8")
SERVE = "applications: [{name: chat, import_path: 'a:b'}, {name: search, import_path: 'c:d'}]"


@dataclass
class Asked:
    """A server that answers from a table, by method and path, and keeps what it was asked."""

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url="http://here", transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        key = (request.method, request.url.path)
        self.seen.append((*key, request.content.decode()))
        said = self.answers.get(key, 404)
        return httpx.Response(said) if isinstance(said, int) else httpx.Response(200, json=said)

    def did(self, method: str) -> list[str]:
        return [path for way, path, _ in self.seen if way == method]


def away(_: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def nobody() -> httpx.Client:
    return httpx.Client(base_url="http://here", transport=httpx.MockTransport(away))


@pytest.fixture
def home(tmp_path: Path) -> FleetHome:
    made = FleetHome(tmp_path / "home")
    made.prepare()
    return made


def mounted(tmp_path: Path, text: str, name: str = "fleet.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


# The loop.


class Flaky:
    """A duty that fails as often as it is told to."""

    name = "flaky"

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.times = 0

    def tend(self) -> None:
        self.times += 1
        if self.left:
            self.left -= 1
            raise FaultError("not yet", where="here")


def test_a_duty_that_fails_is_tried_again_and_keeps_nobody_waiting(caplog):
    caplog.set_level("INFO", logger="fleet.attend")
    bad, good = Flaky(failures=3), Flaky(failures=0)
    good.name = "good"
    attendant = Attendant([bad, good])
    for second in range(20):
        attendant.look(float(second))
    assert good.times == 20
    assert bad.times == 3 + (20 - int(EVERY_S * (1 + 2 + 4)))
    assert [record.message for record in caplog.records] == ["flaky: here: not yet", "flaky: well again"]


class Surprised(Flaky):
    """A duty that comes upon what nobody thought of, such as an answer of another shape."""

    name = "surprised"

    def tend(self) -> None:
        self.times += 1
        raise KeyError("data")


def test_what_a_duty_does_not_expect_ends_neither_the_others_nor_the_attendant(caplog):
    bad, good = Surprised(failures=0), Flaky(failures=0)
    attendant = Attendant([bad, good])
    for second in range(20):
        attendant.look(float(second))
    assert (good.times, bad.times > 1) == (20, True)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "surprised: KeyError('data')"
    ]


def test_no_duty_is_let_be_for_long():
    bad = Flaky(failures=10_000)
    attendant = Attendant([bad])
    for second in range(1000):
        attendant.look(float(second))
    assert bad.times > 1000 / LONGEST_PAUSE_S


# The gateway.


class FakeGateway:
    def __init__(self) -> None:
        self.did: list[str] = []

    def start(self) -> None:
        self.did.append("start")

    def keep(self) -> None:
        self.did.append("keep")


def test_the_gateway_finds_the_token_where_it_looks_for_one(home, tmp_path):
    gateway, token = FakeGateway(), mounted(tmp_path, "secret", "token")
    duty = KeepGateway(gateway, home, token)  # type: ignore[arg-type]  # as much of a gateway as it takes
    duty.tend()
    duty.tend()
    assert gateway.did == ["start", "keep"]
    assert (home.path / "token").read_text() == "secret"


def test_a_token_that_is_asked_for_no_more_goes(home, tmp_path):
    (home.path / "token").symlink_to(tmp_path / "gone")
    KeepGateway(FakeGateway(), home, None).tend()  # type: ignore[arg-type]
    assert not (home.path / "token").is_symlink()


# The policy.


def test_a_new_home_starts_with_the_policy_of_the_file(home, tmp_path):
    gateway = Asked()
    ApplyPolicy(mounted(tmp_path, POLICY), home, gateway.client()).tend()
    assert home.policy.read_text() == POLICY
    assert not gateway.seen


def test_a_file_that_changed_is_put_in_force_once_and_what_others_changed_since_stays(home, tmp_path):
    gateway = Asked({("POST", "/api/fleet/policy"): {"changes": [], "accepted": True}})
    file = mounted(tmp_path, POLICY)
    duty = ApplyPolicy(file, home, gateway.client())
    duty.tend()
    home.policy.write_text("what somebody applied since")
    duty.tend()
    file.write_text(POLICY + "# another\n")
    duty.tend()
    duty.tend()
    assert [content for _, _, content in gateway.seen] == [POLICY + "# another\n"]
    assert home.policy.read_text() == "what somebody applied since"


def test_a_policy_that_is_none_is_never_asked_for(home, tmp_path):
    gateway = Asked()
    with pytest.raises(RequestError):
        ApplyPolicy(mounted(tmp_path, "version: 1\nnonsense: true\n"), home, gateway.client()).tend()
    assert not home.policy.exists()
    assert not gateway.seen


REFUSED: dict[str, Callable[[], httpx.Client]] = {
    "one that the fleet refuses": lambda: Asked({("POST", "/api/fleet/policy"): 409}).client(),
    "one that nobody took, the gateway being away": nobody,
}


@pytest.mark.parametrize("client", REFUSED.values(), ids=REFUSED)
def test_a_policy_is_asked_for_until_it_was_taken(home, tmp_path, client):
    home.policy.write_text(POLICY)
    file = mounted(tmp_path, POLICY)
    with pytest.raises((RequestError, FaultError)):
        ApplyPolicy(file, home, client()).tend()
    taking = Asked({("POST", "/api/fleet/policy"): {}})
    ApplyPolicy(file, home, taking.client()).tend()
    assert taking.did("POST") == ["/api/fleet/policy"]


# The arbiter.

ACTORS = ("GET", "/api/v0/actors")


def actors(*states: str) -> dict[str, Any]:
    return {"data": {"result": {"result": [{"state": state} for state in states]}}}


def arbiter(home: FleetHome, ray: Asked, now: float = 1000.0) -> HaveArbiter:
    home.policy.write_text(POLICY)
    return HaveArbiter(ray.client(), home, "http://ray", lambda: now)


THERE = {
    "none was ever there": (actors(), 1),
    "one that was there is dead": (actors("DEAD", "DEAD"), 1),
    "one is there": (actors("DEAD", "ALIVE"), 0),
    "Ray is starting it again": (actors("RESTARTING"), 0),
    "Ray is starting it": (actors("PENDING_CREATION"), 0),
}


@pytest.mark.parametrize(("found", "want"), THERE.values(), ids=THERE)
def test_the_arbiter_is_started_when_there_is_none(home, found, want):
    ray = Asked({ACTORS: found, ("POST", "/api/jobs/"): {}})
    arbiter(home, ray).tend()
    assert len(ray.did("POST")) == want


def test_ray_is_not_asked_for_an_arbiter_that_says_that_it_is_alive(home):
    ray = Asked()
    (home.path / "arbiter.alive").touch()
    os.utime(home.path / "arbiter.alive", (995.0, 995.0))
    arbiter(home, ray).tend()
    assert not ray.seen


def test_no_arbiter_starts_in_a_home_without_a_policy(home):
    ray = Asked({ACTORS: actors()})
    duty = arbiter(home, ray)
    home.policy.unlink()
    duty.tend()
    assert not ray.did("POST")


def test_one_job_at_a_time_starts_it_and_leaves_no_trace(home):
    job, now = "/api/jobs/fleet-attend-1000000", [1000.0]
    ray = Asked({ACTORS: actors(), ("POST", "/api/jobs/"): {}, ("GET", job): {"status": "RUNNING"}})
    home.policy.write_text(POLICY)
    duty = HaveArbiter(ray.client(), home, "http://ray", lambda: now[0])
    duty.tend()
    duty.tend()
    assert json.loads(ray.seen[1][2])["entrypoint"].endswith(f"--home {home.path} --dashboard-url http://ray")
    ray.answers |= {("GET", job): {"status": "SUCCEEDED"}, ("DELETE", job): {}, ACTORS: actors("ALIVE")}
    duty.tend()
    duty.tend()
    assert not ray.did("DELETE")  # Ray still looks after it
    now[0] += FORGET_AFTER_S
    duty.tend()
    duty.tend()
    assert (ray.did("POST"), ray.did("DELETE")) == (["/api/jobs/"], [job])


def test_of_several_jobs_that_end_soon_after_one_another_none_stays_and_a_refusal_is_not_the_end(home):
    first, second = "/api/jobs/fleet-attend-1000000", "/api/jobs/fleet-attend-1001000"
    now, done = [1000.0], {"status": "SUCCEEDED"}
    ray = Asked({ACTORS: actors(), ("POST", "/api/jobs/"): {}, ("GET", first): done, ("GET", second): done})
    home.policy.write_text(POLICY)
    duty = HaveArbiter(ray.client(), home, "http://ray", lambda: now[0])
    for _ in range(2):  # the arbiter of the first job dies at once
        duty.tend()
        now[0] += 1.0
        duty.tend()
        now[0] = 1001.0
    ray.answers |= {("DELETE", first): 500, ("DELETE", second): {}, ACTORS: actors("ALIVE")}
    now[0] += 2 * FORGET_AFTER_S
    with pytest.raises(FaultError, match="refuses"):
        duty.tend()
    ray.answers["DELETE", first] = {}
    duty.tend()
    duty.tend()
    assert ray.did("DELETE") == [first, first, second]


def test_a_job_that_failed_is_told_with_its_last_words_and_another_one_follows(home):
    job = "/api/jobs/fleet-attend-1000000"
    ray = Asked({ACTORS: actors(), ("POST", "/api/jobs/"): {}, ("GET", job): {"status": "FAILED"}})
    ray.answers[("GET", job + "/logs")] = {"logs": "the disk is full"}
    duty = arbiter(home, ray)
    duty.tend()
    with pytest.raises(FaultError, match="the disk is full"):
        duty.tend()
    duty.tend()
    assert len(ray.did("POST")) == 2


def test_a_job_that_went_with_its_head_is_not_waited_for(home):
    ray = Asked({ACTORS: actors(), ("POST", "/api/jobs/"): {}})
    duty = arbiter(home, ray)
    for _ in range(3):
        duty.tend()
    assert len(ray.did("POST")) == 2


def test_a_ray_that_is_away_is_a_fault_and_no_end(home):
    home.policy.write_text(POLICY)
    with pytest.raises(FaultError, match="does not answer"):
        HaveArbiter(nobody(), home, "http://ray").tend()


# Serve.

APPLICATIONS = "/api/serve/applications/"


def running(*names: str, proxies: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "applications": {name: {"status": "RUNNING", "message": ""} for name in names},
        "proxies": {ip: {"node_ip": ip, "status": status} for ip, status in (proxies or {}).items()},
    }


def serve(home: FleetHome, file: Path, there: Any) -> Asked:
    ray = Asked({("GET", APPLICATIONS): there, ("PUT", APPLICATIONS): {}})
    DeployServe(file, ray.client(), home, 8000).tend()
    return ray


def test_applications_are_deployed_with_a_proxy_on_every_node_that_has_a_replica(home, tmp_path):
    ray = serve(home, mounted(tmp_path, SERVE), {})
    body = json.loads(ray.seen[-1][2])
    assert body["proxy_location"] == "EveryNode"
    assert body["http_options"] == {"host": "0.0.0.0", "port": 8000}
    assert [each["name"] for each in body["applications"]] == ["chat", "search"]


def test_what_the_file_says_of_proxies_goes_first(home, tmp_path):
    ray = serve(home, mounted(tmp_path, SERVE + "\nproxy_location: HeadOnly"), {})
    assert json.loads(ray.seen[-1][2])["proxy_location"] == "HeadOnly"


AGAIN = {
    "nothing is deployed twice": (SERVE, running("chat", "search"), 0),
    "what somebody else deployed is none of our business": (SERVE, running("chat", "search", "other"), 0),
    "an application that is gone is deployed again": (SERVE, running("chat"), 1),
    "a head that forgot everything is told again": (SERVE, {}, 1),
    "a file that changed is deployed": (SERVE + " # changed", running("chat", "search"), 1),
    "a file that became empty removes nothing": ("", running("chat", "search"), 0),
}


@pytest.mark.parametrize(("text", "there", "want"), AGAIN.values(), ids=AGAIN)
def test_what_is_deployed_already(home, tmp_path, text, there, want):
    file = mounted(tmp_path, SERVE)
    serve(home, file, {})
    file.write_text(text)
    assert len(serve(home, file, there).did("PUT")) == want


def test_an_application_without_a_name_is_called_as_serve_calls_it(home, tmp_path):
    file = mounted(tmp_path, "applications: [{import_path: 'a:b'}]")
    assert serve(home, file, {}).did("PUT")
    assert not serve(home, file, running("default")).did("PUT")


@pytest.mark.parametrize("text", ["applications: [chat]", "applications: {name: chat}"])
def test_applications_that_are_none_are_said_and_not_deployed(home, tmp_path, text):
    with pytest.raises(RequestError, match="no list of mappings"):
        serve(home, mounted(tmp_path, text), {})


def test_a_config_that_serve_refused_is_deployed_again(home, tmp_path):
    file = mounted(tmp_path, SERVE)
    refusing = Asked({("GET", APPLICATIONS): running("chat", "search"), ("PUT", APPLICATIONS): 400})
    with pytest.raises(RequestError):
        DeployServe(file, refusing.client(), home, 8000).tend()
    assert serve(home, file, running("chat", "search")).did("PUT")


# The pods that take requests.


class FakeKubernetes:
    """As much of Kube, and of its CoreV1Api, as the labels take."""

    def __init__(self, **pods: str) -> None:
        self.labels: dict[str, dict[str, Any]] = {name: {} for name in pods}
        self.addresses = pods
        self.listed = 0
        self.core = self

    def ask(self, call: Callable[..., dict[str, Any]], *names: str, **options: Any) -> dict[str, Any]:
        return call(*names, **options)

    def list_namespaced_pod(self, namespace: str, *, label_selector: str) -> dict[str, Any]:
        assert (namespace, label_selector) == ("ns", "ray.io/cluster=fleet")
        self.listed += 1
        return {
            "items": [
                {"metadata": {"name": name, "labels": self.labels[name]}, "status": {"podIP": address}}
                for name, address in self.addresses.items()
            ]
        }

    def patch_namespaced_pod(self, name: str, namespace: str, *, body: Any, _content_type: str) -> dict[str, Any]:
        if name not in self.labels:
            raise NotFoundError("no such pod", where=name)
        for key, value in body["metadata"]["labels"].items():
            if value is None:
                del self.labels[name][key]
            else:
                self.labels[name][key] = value
        return {}


def labels(kubernetes: FakeKubernetes) -> PodLabels:
    return PodLabels(lambda: kubernetes, "fleet", "ns")  # type: ignore[arg-type]  # as much of it as it takes


def test_a_pod_has_the_label_while_its_proxy_takes_requests():
    kubernetes = FakeKubernetes(a="1.1", b="1.2", c="1.3", unscheduled="")
    ray = Asked({("GET", APPLICATIONS): running(proxies={"1.1": "HEALTHY", "1.2": "DRAINING"})})
    duty = LabelProxies(ray.client(), labels(kubernetes))
    duty.tend()
    assert kubernetes.labels == {"a": {"fleet/proxy": "true"}, "b": {}, "c": {}, "unscheduled": {}}
    ray.answers[("GET", APPLICATIONS)] = running(proxies={"1.1": "UNHEALTHY", "1.3": "HEALTHY"})
    duty.tend()
    assert kubernetes.labels == {"a": {}, "b": {}, "c": {"fleet/proxy": "true"}, "unscheduled": {}}


LABELLED = {
    "one that Serve says is draining loses it at once": ({"1.1": "DRAINING"}, 1, False),
    "one that Serve says is ill loses it at once": ({"1.1": "UNHEALTHY"}, 1, False),
    "one that is found again keeps it": ({"1.1": "STARTING"}, 4 * MISSED_LOOKS, True),
    "one that a new controller has not found yet keeps it": ({"1.9": "HEALTHY"}, MISSED_LOOKS - 1, True),
    "no proxy at all is a controller that is coming back": ({}, MISSED_LOOKS - 1, True),
    "one that stays unnamed loses it": ({"1.9": "HEALTHY"}, MISSED_LOOKS, False),
}


@pytest.mark.parametrize(("proxies", "looks", "want"), LABELLED.values(), ids=LABELLED)
def test_a_pod_that_took_requests(proxies, looks, want):
    kubernetes = FakeKubernetes(a="1.1")
    kubernetes.labels["a"]["fleet/proxy"] = "true"
    duty = LabelProxies(Asked({("GET", APPLICATIONS): running(proxies=proxies)}).client(), labels(kubernetes))
    for _ in range(looks):
        duty.tend()
    assert ("fleet/proxy" in kubernetes.labels["a"]) is want


def test_a_proxy_that_is_named_again_is_counted_anew():
    kubernetes = FakeKubernetes(a="1.1")
    ray = Asked()
    duty = LabelProxies(ray.client(), labels(kubernetes))
    for named in (True, *[False] * (MISSED_LOOKS - 1), True, *[False] * (MISSED_LOOKS - 1)):
        ray.answers[("GET", APPLICATIONS)] = running(proxies={"1.1": "HEALTHY"} if named else {})
        duty.tend()
        assert kubernetes.labels["a"] == {"fleet/proxy": "true"}


def test_a_new_proxy_takes_no_requests_while_it_starts():
    kubernetes = FakeKubernetes(a="1.1")
    ray = Asked({("GET", APPLICATIONS): running(proxies={"1.1": "STARTING"})})
    LabelProxies(ray.client(), labels(kubernetes)).tend()
    assert kubernetes.labels["a"] == {}


def test_kubernetes_is_asked_when_proxies_change_and_now_and_then():
    kubernetes = FakeKubernetes(a="1.1")
    ray = Asked({("GET", APPLICATIONS): running(proxies={"1.1": "HEALTHY"})})
    duty = LabelProxies(ray.client(), labels(kubernetes))
    for _ in range(2 * LOOK_EVERY):
        duty.tend()
    assert kubernetes.listed == 3
    kubernetes.labels["a"].clear()  # the pod was replaced by one of the same address
    for _ in range(LOOK_EVERY):
        duty.tend()
    assert kubernetes.labels["a"] == {"fleet/proxy": "true"}


def test_a_serve_that_cannot_be_asked_changes_no_label():
    kubernetes = FakeKubernetes(a="1.1")
    kubernetes.labels["a"]["fleet/proxy"] = "true"
    with pytest.raises(FaultError):
        LabelProxies(nobody(), labels(kubernetes)).tend()
    assert kubernetes.labels["a"] == {"fleet/proxy": "true"}


def test_outside_of_kubernetes_there_are_no_pods():
    assert PodLabels.of({}) is None


def test_a_pod_without_an_account_is_said_and_ends_nothing(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    pods = PodLabels.of({"FLEET_KUBE_CLUSTER": "fleet", "FLEET_KUBE_NAMESPACE": "ns"})
    with pytest.raises(FaultError, match="no pod with a service account"):
        LabelProxies(Asked({("GET", APPLICATIONS): running(proxies={"1.1": "HEALTHY"})}).client(), pods).tend()
