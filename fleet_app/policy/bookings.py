"""What may be asked of the calendar: a booking for a team, or a maintenance window, checked against the policy.

Turns what a person asks for into the engine's `BookingAsk`. Knows the policy, and node names when they are given.
Does not know what is free, nor whether the booking can be honoured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from fleet_app.engine.calendar import BookingAsk, Transfer
from fleet_app.engine.errors import NotFoundError
from fleet_app.engine.values import Node, Shape
from fleet_app.policy.problems import Problem, closest, from_pydantic, refuse
from fleet_app.policy.schema import PolicyFile, entries
from fleet_app.policy.section import Section
from fleet_app.policy.units import Name, PositiveGpus

MOST_AT = 100_000_000_000.0
"""A moment that nobody books for, in seconds since the epoch: in the year 5138."""

Moment = Annotated[float, Field(ge=0, le=MOST_AT, allow_inf_nan=False)]
Who = Annotated[str, Field(min_length=1, max_length=128)]


class TransferSpec(Section):
    """Nominal that `lender` gives to the booking's team while it lasts, in GPUs, and who approved that."""

    lender: Name
    gpus: PositiveGpus
    approved_by: Who


class BookingSpec(Section):
    """A booking as a person asks for it; moments are seconds since the epoch.

    How much is said in one of four ways: `gpus` in all, whole `nodes`, the nodes named in `on`, or all of a `domain`
    (`s1/l2`). `team` left out books them for nobody: a maintenance window. `within` names the topology level whose
    domains hold it, of which it may lie in `most_domains`.
    """

    name: Name
    team: Name | None = None
    gpus: PositiveGpus | None = None
    nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    on: Annotated[tuple[Name, ...], Field(max_length=100_000)] = ()
    domain: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    start_at: Moment
    end_at: Moment
    within: Name | None = None
    most_domains: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    accelerator: Name | None = None
    transfers: Annotated[tuple[TransferSpec, ...], Field(max_length=100)] = ()


def booking_from_mapping(obj: Mapping[str, object], policy: PolicyFile, now: float) -> BookingSpec:
    """Return the booking in a mapping of natural types, checked against the policy; `now` in seconds.

    Raises RequestError with everything that is wrong.
    """
    try:
        spec = BookingSpec.model_validate(obj)
    except ValidationError as error:
        refuse(from_pydantic(error, BookingSpec), "booking")
        raise  # not reached: pydantic never reports an error without details
    problems = [*_size(spec, policy), *_times(spec, now), *_place(spec, policy), *_teams(spec, policy)]
    refuse(problems, f"booking {spec.name}")
    return spec


def to_ask(spec: BookingSpec, policy: PolicyFile, nodes: Iterable[Node], asked_by: str, now: float) -> BookingAsk:
    """Return what the engine is asked at `now`, on the fleet's `nodes`: nothing starts before that.

    Raises NotFoundError for nodes that are not there.
    """
    named = _named(spec, policy, tuple(nodes))
    whole, gpus = policy.topology.gpus_per_node, spec.gpus or 0
    return BookingAsk(
        name=spec.name,
        team=spec.team,
        shape=Shape(gpus=gpus if 0 < gpus < whole else whole),
        count=len(named) or spec.nodes or max(1, gpus // whole),
        nodes=named,
        start_at=max(spec.start_at, now),
        end_at=spec.end_at,
        within=spec.within,
        most_domains=spec.most_domains,
        accelerator=spec.accelerator,
        transfers=tuple(
            Transfer(lender=each.lender, gpus=each.gpus, approved_by=each.approved_by) for each in spec.transfers
        ),
        asked_by=asked_by,
    )


def _named(spec: BookingSpec, policy: PolicyFile, nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the names of the nodes that are asked for by name, or by the domain they are in."""
    known = {node.name for node in nodes}
    for name in spec.on:
        if name not in known:
            raise NotFoundError(f"there is no node {name!r}", where="on", fix=closest(name, known))
    if spec.domain is None:
        return tuple(sorted(set(spec.on)))
    place = tuple(spec.domain.split("/"))
    found = tuple(sorted(node.name for node in nodes if node.domains[: len(place)] == place))
    if not found:
        domains = {"/".join(node.domains[: len(place)]) for node in nodes}
        raise NotFoundError(
            f"no node is in {spec.domain!r} (written {'/'.join(policy.topology.levels)})",
            where="domain",
            fix=closest(spec.domain, domains),
        )
    return found


def _size(spec: BookingSpec, policy: PolicyFile) -> Iterator[Problem]:
    given = [key for key in ("gpus", "nodes", "on", "domain") if getattr(spec, key)]
    if len(given) != 1:
        what = f"is said in {len(given)} ways: {', '.join(given)}" if given else "is not said"
        yield Problem(path=("nodes",), what=f"how much to book {what}", fix="Give one of gpus, nodes, on and domain")
    whole = policy.topology.gpus_per_node
    if spec.gpus is not None and spec.gpus > whole and spec.gpus % whole:
        yield Problem(
            path=("gpus",),
            what=f"is {spec.gpus}, more than one node and no number of whole nodes of {whole}",
            fix=f"Write {spec.gpus // whole * whole} or {-(-spec.gpus // whole) * whole}",
        )


def _times(spec: BookingSpec, now: float) -> Iterator[Problem]:
    if spec.end_at <= spec.start_at:
        yield Problem(path=("end_at",), what="is not after start_at", fix="Let it end after it starts")
    elif spec.end_at <= now:
        yield Problem(path=("end_at",), what="is over already", fix="Book a time to come")


def _place(spec: BookingSpec, policy: PolicyFile) -> Iterator[Problem]:
    levels, most = policy.topology.levels, policy.calendar.most_domains
    if spec.within is not None and spec.within not in levels:
        yield Problem(path=("within",), what=f"{spec.within!r} is no topology level", fix=closest(spec.within, levels))
    if spec.most_domains > 1 and spec.within is None:
        yield Problem(path=("most_domains",), what="has no level to count domains of", fix="Give within too")
    if spec.most_domains > most:
        yield Problem(
            path=("most_domains",),
            what=f"is {spec.most_domains}, above the policy's calendar.most_domains of {most}",
            fix=f"Write {most} or less",
        )


def _teams(spec: BookingSpec, policy: PolicyFile) -> Iterator[Problem]:
    teams = {entry.name for entry in entries(policy) if entry.is_team}
    if spec.team is not None and spec.team not in teams:
        yield Problem(path=("team",), what=f"team {spec.team!r} is unknown", fix=closest(spec.team, teams))
    if spec.team is None and spec.transfers:
        yield Problem(path=("transfers",), what="nobody gets them: there is no team", fix="Give team, or no transfers")
    lenders = [transfer.lender for transfer in spec.transfers]
    for place, lender in enumerate(lenders):
        if lender not in teams:
            yield Problem(
                path=("transfers", place, "lender"), what=f"team {lender!r} is unknown", fix=closest(lender, teams)
            )
        elif lender == spec.team or lender in lenders[:place]:
            whose = "is the booking's own team" if lender == spec.team else "lends twice"
            yield Problem(path=("transfers", place, "lender"), what=f"{lender!r} {whose}", fix="Name each lender once")
