"""A RayCluster is deleted once, and waited for, but not for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet_app.adapters.retire import EVERY_S, main, retire
from fleet_app.engine.errors import FaultError, NotFoundError, RequestError

WHERE = ("ray.io", "v1", "ns", "rayclusters", "fleet")


class FakeKube:
    """As much of Kube as it takes: answers one after another, the last one for ever."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.custom = self
        self.slept = 0.0

    def ask(self, call: Callable[..., Any], *where: str) -> dict[str, Any]:
        assert where == WHERE
        self.asked.append(call.__name__.split("_")[0])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is not None:
            raise answer
        return {}

    def delete_namespaced_custom_object(self) -> None: ...

    def get_namespaced_custom_object(self) -> None: ...

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def retire(self, within_s: float = 20.0) -> bool:
        return retire(self, "fleet", "ns", within_s, self.sleep)  # type: ignore[arg-type]


GONE, AWAY = NotFoundError("no such thing"), FaultError("no answer")
CASES = {
    "it goes after a while": ((None, None, None, GONE), True, ["delete", "get", "get", "get"]),
    "it was never there": ((GONE,), True, ["delete"]),
    "a server that does not answer is asked again": (
        (AWAY, None, AWAY, GONE),
        True,
        ["delete", "delete", "get", "get"],
    ),
    "it does not go": ((None,), False, ["delete", *["get"] * 9]),
    "no answer is not gone": ((AWAY,), False, ["delete"] * 10),
}


@pytest.mark.parametrize(("answers", "want", "asked"), CASES.values(), ids=CASES)
def test_retiring(answers, want, asked):
    kube = FakeKube(*answers)
    assert kube.retire() is want
    assert kube.asked == asked
    assert kube.slept <= 10 * EVERY_S


def test_a_right_that_it_does_not_have_is_said():
    with pytest.raises(RequestError):
        FakeKube(RequestError("forbidden")).retire()


def test_without_an_account_the_hook_fails_and_says_what_to_do(monkeypatch, capsys):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["--cluster", "fleet", "--namespace", "ns", "--within", "4"]) == 1
    assert "no pod with a service account" in (said := capsys.readouterr().err)
    assert "--no-hooks" in said
