"""Requests to the arbiter, one JSON file each, in `<home>/inbox`.

Posting needs no living arbiter: a request is on disk, whole, before `post` returns, and is read in the order of
posting once an arbiter runs. Knows files and the shapes of requests. Does not know what is done with a request.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fleet_app.engine.errors import FaultError
from fleet_app.engine.values import NodeClass

FILE = re.compile(r"(\d{12})-\w+\.json")
LARGEST_BYTES = 8 * 1024 * 1024


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Submit(_Request):
    """Queue a workload: `spec` is a dumped `policy.specs.WorkloadSpec`, the rest is its Ray job; `at` in seconds."""

    kind: Literal["submit"] = "submit"
    spec: dict[str, Any]
    entrypoint: str
    runtime_env: dict[str, Any] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)
    at: float = Field(ge=0, allow_inf_nan=False)


class Cancel(_Request):
    """End a workload for good; a running one gets its grace."""

    kind: Literal["cancel"] = "cancel"
    name: str


class Drain(_Request):
    """Give a running workload notice; it goes back to the queue. No grace means its own."""

    kind: Literal["drain"] = "drain"
    name: str
    grace_s: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Move(_Request):
    """Ask a running workload to leave at its next checkpoint, whenever that is; it goes back to the queue."""

    kind: Literal["move"] = "move"
    name: str


class Forget(_Request):
    """Delete an ended workload and its Ray jobs; afterwards its name may be used again."""

    kind: Literal["forget"] = "forget"
    name: str


class Pause(_Request):
    """Go on seeing and deciding, but admit, drain and grant nothing."""

    kind: Literal["pause"] = "pause"


class Resume(_Request):
    """End a pause."""

    kind: Literal["resume"] = "resume"


class Quarantine(_Request):
    """Place nothing new on a node; no duration means the policy's, `who` asked for it."""

    kind: Literal["quarantine"] = "quarantine"
    node: str
    reason: str
    for_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    who: str


class Release(_Request):
    """End a node's quarantine; `who` asked for it."""

    kind: Literal["release"] = "release"
    node: str
    who: str


class _AboutBooking(_Request):
    """What the requests about bookings share: `ref`, if there is one, is in the note that says what came of it."""

    ref: str = ""


class MakeBooking(_AboutBooking):
    """Book nodes: `spec` is a dumped `policy.bookings.BookingSpec`; who asks, and who approves it if anybody does."""

    kind: Literal["make-booking"] = "make-booking"
    spec: dict[str, Any]
    asked_by: str
    approved_by: str = ""


class ApproveBooking(_AboutBooking):
    """Let a proposal, or a proposed extension, bind; `who` approves it."""

    kind: Literal["approve-booking"] = "approve-booking"
    name: str
    who: str


class ExtendBooking(_AboutBooking):
    """Let a booking end later, at `end_at` (seconds since the epoch)."""

    kind: Literal["extend-booking"] = "extend-booking"
    name: str
    end_at: float = Field(ge=0, allow_inf_nan=False)
    asked_by: str
    approved_by: str = ""


class CancelBooking(_AboutBooking):
    """Give a booking or a proposal up; `who` asked for it."""

    kind: Literal["cancel-booking"] = "cancel-booking"
    name: str
    who: str


class MoveBoundary(_Request):
    """Let nodes cross to another class; `who` asked for it."""

    kind: Literal["boundary"] = "boundary"
    nodes: tuple[str, ...] = Field(min_length=1)
    to: NodeClass
    who: str


class StayBoundary(_Request):
    """Call off the crossing of nodes that have not crossed yet; `who` asked for it."""

    kind: Literal["boundary-stay"] = "boundary-stay"
    nodes: tuple[str, ...] = Field(min_length=1)
    who: str


class SetPolicy(_Request):
    """Put another policy file in force; `text` is YAML, `who` asked for it."""

    kind: Literal["set-policy"] = "set-policy"
    text: str
    who: str


AboutBooking = MakeBooking | ApproveBooking | ExtendBooking | CancelBooking
AboutNodes = Quarantine | Release | MoveBoundary | StayBoundary
Order = Submit | Cancel | Drain | Move | Forget | Pause | Resume | AboutNodes | SetPolicy
Request = Order | AboutBooking
_ADAPTER: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file in the inbox that is no request, and why."""

    why: str


def folder(home: Path) -> Path:
    """Return the directory where requests wait."""
    return home / "inbox"


def post(home: Path, request: Request) -> str:
    """Leave a request for the arbiter and return its id, once it is safely on disk.

    Requests of one poster are read in the order of posting. Raises FaultError when it cannot be written.
    """
    try:
        return _post(folder(home), _ADAPTER.dump_json(request))
    except OSError as error:
        raise FaultError(
            f"the request cannot be kept: {error}", where=str(folder(home)), fix="Free disk space, or check who owns it"
        ) from error


def _post(box: Path, content: bytes) -> str:
    box.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=box)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unique = temporary.rsplit("-", 1)[1]
    name = f"{_last(box) + 1:012d}-{unique}.json"
    Path(temporary).rename(box / name)
    _sync(box)
    return name


def _last(box: Path) -> int:
    with os.scandir(box) as entries:
        numbers = (FILE.fullmatch(entry.name) for entry in entries)
        return max((int(number[1]) for number in numbers if number), default=0)


def _sync(box: Path) -> None:
    handle = os.open(box, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def waiting(home: Path, most: int | None = None) -> tuple[tuple[Path, Request | Unreadable], ...]:
    """Return what waits, in the order of posting, the first `most` of it. Changes nothing, so anybody may look.

    A file that is no request comes as Unreadable: it never blocks the others. Raises FaultError when the inbox cannot
    be read at all.
    """
    box = folder(home)
    found = ((box / name, _read(box / name)) for name in _listed(box)[:most])
    return tuple((path, request) for path, request in found if request is not None)


class Reader:
    """The inbox for one who looks again and again: a request stays as it is, so each is read once."""

    def __init__(self, home: Path) -> None:
        """Have read nothing yet."""
        self._box = folder(home)
        self._known: dict[str, Request] = {}

    def waiting(self) -> Mapping[str, Request]:
        """Return the requests that wait now by their ids, in the order of posting. Raises FaultError."""
        found = ((name, self._known.get(name) or _read(self._box / name)) for name in _listed(self._box))
        self._known = {name: one for name, one in found if one is not None and not isinstance(one, Unreadable)}
        return self._known


def _listed(box: Path) -> list[str]:
    """Return the names of files that may be requests, in the order of posting. Raises FaultError."""
    try:
        with os.scandir(box) as entries:
            return sorted(entry.name for entry in entries if FILE.fullmatch(entry.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise FaultError(f"the inbox cannot be read: {error}", where=str(box), fix="Check who owns it") from error


def _read(path: Path) -> Request | Unreadable | None:
    """Return what is in a file; None when the arbiter removed it meanwhile."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            return Unreadable(why=f"it is larger than {LARGEST_BYTES} bytes")
        return _ADAPTER.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return Unreadable(why=f"{where}: {first['msg']}" if where else str(first["msg"]))
    except OSError as error:
        return Unreadable(why=str(error))


def refuse(path: Path) -> None:
    """Move a file that is no request to `inbox/refused`, where somebody may look at it.

    Raises FaultError when it cannot be moved.
    """
    bin_ = path.parent / "refused"
    try:
        bin_.mkdir(exist_ok=True)
        path.replace(bin_ / path.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise FaultError(f"a request cannot be moved: {error}", where=str(path), fix="Check who owns it") from error


def done(path: Path) -> None:
    """Remove a request that has been journaled; nothing happens when it is gone.

    Raises FaultError when the file cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FaultError(f"a request cannot be removed: {error}", where=str(path), fix="Check who owns it") from error
