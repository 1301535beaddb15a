"""Requests wait on disk, whole and in order, whatever lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_app.arbiter import inbox
from fleet_app.arbiter.inbox import (
    ApproveBooking,
    Cancel,
    CancelBooking,
    Drain,
    ExtendBooking,
    Forget,
    MakeBooking,
    Pause,
    Request,
    Resume,
    SetPolicy,
    Submit,
    Unreadable,
)
from fleet_app.engine.errors import FaultError

REQUESTS: dict[str, Request] = {
    "a submission": Submit(spec={"name": "a", "gpus": 2}, entrypoint="true", metadata={"k": "v"}, at=1.5),
    "a cancel": Cancel(name="a"),
    "a drain with a grace": Drain(name="a", grace_s=2.5),
    "a drain without": Drain(name="a"),
    "a forget": Forget(name="a"),
    "a pause": Pause(),
    "a resume": Resume(),
    "a policy": SetPolicy(text="version: 1", who="me"),
    "a booking": MakeBooking(spec={"name": "a", "nodes": 2}, asked_by="ada", approved_by="grace", ref="1"),
    "an approval": ApproveBooking(name="a", who="grace"),
    "an extension": ExtendBooking(name="a", end_at=2.5, asked_by="ada"),
    "a booking given up": CancelBooking(name="a", who="ada"),
}

NONSENSE = {
    "no JSON": b"\xff\xfe{",
    "an unknown kind": b'{"kind": "explode"}',
    "a missing field": b'{"kind": "cancel"}',
    "a field too many": b'{"kind": "cancel", "name": "a", "force": true}',
    "a grace that is no number": b'{"kind": "drain", "name": "a", "grace_s": NaN}',
    "a negative grace": b'{"kind": "drain", "name": "a", "grace_s": -1}',
    "an end that is no number": b'{"kind": "extend-booking", "name": "a", "end_at": NaN, "asked_by": "a"}',
    "nothing": b"",
    "too much": b" " * (inbox.LARGEST_BYTES + 1),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_what_is_posted_is_what_waits(request_: Request, tmp_path: Path) -> None:
    inbox.post(tmp_path, request_)
    assert [request for _, request in inbox.waiting(tmp_path)] == [request_]


def test_requests_wait_in_the_order_of_posting(tmp_path: Path) -> None:
    for number in range(30):
        inbox.post(tmp_path, Cancel(name=str(number)))
    assert [request.name for _, request in inbox.waiting(tmp_path) if isinstance(request, Cancel)] == [
        str(number) for number in range(30)
    ]


def test_a_request_that_is_done_waits_no_more_and_its_id_is_not_used_again(tmp_path: Path) -> None:
    first = inbox.post(tmp_path, Pause())
    inbox.done(tmp_path / "inbox" / first)
    inbox.done(tmp_path / "inbox" / first)
    assert inbox.waiting(tmp_path) == ()
    assert inbox.post(tmp_path, Pause()) != first


def test_no_inbox_is_an_empty_one(tmp_path: Path) -> None:
    assert inbox.waiting(tmp_path) == ()


@pytest.mark.parametrize("content", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_told_apart_and_blocks_nobody(content: bytes, tmp_path: Path) -> None:
    inbox.post(tmp_path, Pause())
    bad = tmp_path / "inbox" / "000000000000-bad.json"
    bad.write_bytes(content)
    inbox.post(tmp_path, Resume())
    found = inbox.waiting(tmp_path)
    assert [type(request) for _, request in found] == [Unreadable, Pause, Resume]
    inbox.refuse(bad)
    inbox.refuse(bad)
    assert len(inbox.waiting(tmp_path)) == 2
    assert (tmp_path / "inbox" / "refused" / bad.name).read_bytes() == content


def test_a_file_that_is_still_being_written_is_not_seen(tmp_path: Path) -> None:
    inbox.post(tmp_path, Pause())
    (tmp_path / "inbox" / ".new-half").write_text('{"kind": "can')
    assert len(inbox.waiting(tmp_path)) == 1


def test_the_poster_hears_when_a_request_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "inbox").write_text("in the way")
    with pytest.raises(FaultError, match="cannot be kept"):
        inbox.post(tmp_path, Pause())


def _waiting(home: Path) -> list[tuple[str, Request]]:
    found = inbox.waiting(home)
    return [(path.name, request) for path, request in found if not isinstance(request, Unreadable)]


def test_a_reader_sees_the_requests_that_wait_now_however_often_it_looks(tmp_path: Path) -> None:
    reader = inbox.Reader(tmp_path)
    assert reader.waiting() == {}
    first = inbox.post(tmp_path, Cancel(name="a"))
    assert list(reader.waiting().items()) == _waiting(tmp_path) != []
    inbox.post(tmp_path, Cancel(name="b"))
    (inbox.folder(tmp_path) / "000000000009-x.json").write_text("nonsense")
    assert list(reader.waiting().items()) == _waiting(tmp_path)
    inbox.done(inbox.folder(tmp_path) / first)
    assert list(reader.waiting().items()) == _waiting(tmp_path)
    assert list(reader.waiting().values()) == [Cancel(name="b")]


def test_a_reader_opens_no_request_twice_but_what_was_unreadable(tmp_path: Path) -> None:
    """A file that could not be read may be one that can be later; a request stays as it is once it has its name."""
    reader = inbox.Reader(tmp_path)
    read = inbox.folder(tmp_path) / inbox.post(tmp_path, Cancel(name="a"))
    unreadable = inbox.folder(tmp_path) / "000000000009-x.json"
    unreadable.write_text("nonsense")
    assert list(reader.waiting()) == [read.name]
    unreadable.write_bytes(read.read_bytes())
    read.write_text("nonsense")
    assert list(reader.waiting().values()) == [Cancel(name="a"), Cancel(name="a")]
