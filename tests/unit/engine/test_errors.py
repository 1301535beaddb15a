"""Errors say where, what and how to fix it, and whose they are."""

from __future__ import annotations

import pytest

from fleet_app.engine.errors import (
    ConflictError,
    FaultError,
    FleetError,
    IllegalTransitionError,
    NotFoundError,
    RequestError,
)

WHOSE = {
    "a request is the caller's": (RequestError, 2, 400),
    "what is not there is the caller's": (NotFoundError, 2, 404),
    "what the state forbids is the caller's": (ConflictError, 2, 409),
    "a fault is ours": (FaultError, 1, 500),
    "an illegal event is ours": (IllegalTransitionError, 1, 500),
}


@pytest.mark.parametrize(("kind", "exit_code", "status"), WHOSE.values(), ids=WHOSE)
def test_whose_it_is(kind: type[FleetError], exit_code: int, status: int) -> None:
    error = kind("it broke")
    assert (error.exit_code, error.http_status) == (exit_code, status)


SENTENCES = {
    "all three": (RequestError("is 9", where="teams.a.nominal", fix="Write 8"), "teams.a.nominal: is 9. Write 8"),
    "no place": (RequestError("is 9", fix="Write 8"), "is 9. Write 8"),
    "no fix": (RequestError("is 9", where="teams.a"), "teams.a: is 9"),
}


@pytest.mark.parametrize(("error", "want"), SENTENCES.values(), ids=SENTENCES)
def test_sentence(error: FleetError, want: str) -> None:
    assert str(error) == error.sentence() == want
