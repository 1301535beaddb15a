"""What must hold between the sections of a policy: rules that one section alone cannot keep.

One function a section, each returning its problems. Does not know files, lines or the engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet_app.engine.flavors import is_flavor, whole_of
from fleet_app.policy.problems import Path, Problem, closest
from fleet_app.policy.schema import Entry, FlavorLimits, PolicyFile, entries, may_use, nominal_gpus


def check(policy: PolicyFile) -> list[Problem]:
    """Return everything that is wrong between the sections of a policy; empty when it may be applied."""
    found = [
        *_topology(policy),
        *_names(policy),
        *_quotas(policy),
        *_flavors(policy),
        *_classes(policy),
        *_default_classes(policy),
    ]
    if found:
        return found  # what follows would only repeat it in other words
    return [
        *_contract(policy),
        *_headroom(policy),
        *_boundary(policy),
        *_node_pools(policy),
        *_right_size(policy),
        *_services(policy),
        *_spares(policy),
        *_defaults(policy),
    ]


def _topology(policy: PolicyFile) -> Iterator[Problem]:
    levels = policy.topology.levels
    for place, level in enumerate(levels):
        if level in levels[:place]:
            yield Problem(
                path=("topology", "levels", place),
                what=f"level {level!r} is named twice",
                fix="Name each level once, outermost first",
            )


def _node_pools(policy: PolicyFile) -> Iterator[Problem]:
    for level in sorted(policy.node_pools.topology.keys() - set(policy.topology.levels)):
        yield Problem(
            path=("node_pools", "topology", level),
            what="is no topology level of the policy",
            fix=closest(level, policy.topology.levels) or f"Name one of {', '.join(policy.topology.levels)}",
        )


def _names(policy: PolicyFile) -> Iterator[Problem]:
    """Entries are told apart by name alone, everywhere from specs to the journal."""
    seen: dict[str, Entry] = {}
    for entry in entries(policy):
        if entry.name in seen:
            other = ".".join(seen[entry.name].keys)
            yield Problem(
                path=entry.keys,
                what=f"{entry.name!r} is also the name of {other}",
                fix="Give every organisation and team a name of its own",
            )
        seen.setdefault(entry.name, entry)


def _quotas(policy: PolicyFile) -> Iterator[Problem]:
    """Rules Q1 and Q2 are sound only when limits lie inside what there is to share."""
    for entry in entries(policy):
        nominal = nominal_gpus(entry.team)
        below = sum(nominal_gpus(team) for team in entry.team.teams.values())
        if below > nominal:
            yield Problem(
                path=(*entry.keys, "nominal"),
                what=f"is {nominal} GPUs, but the teams below it have {below} together",
                fix=f"Raise it to {below} or lower theirs by {below - nominal}",
            )
        lends = entry.team.lending_limit
        if lends is not None and lends > nominal:
            yield Problem(
                path=(*entry.keys, "lending_limit"),
                what=f"is {lends} GPUs, more than its nominal of {nominal}",
                fix=f"Write {nominal} or less, or leave it out to lend all",
            )


def _flavors(policy: PolicyFile) -> Iterator[Problem]:
    """Numbers by flavor are for slices of cards (V5); they too are sound only inside what there is to share."""
    for entry in entries(policy):
        for name, limits in entry.team.quota.items():
            here: Path = (*entry.keys, "quota", name)
            if whole_of(name):
                yield from _cap(limits, here)
            elif policy.slicing is None:
                yield Problem(path=here, what="is for slices of cards, but the policy has none", fix="Add slicing: {}")
            elif not is_flavor(name):
                yield Problem(
                    path=here,
                    what="is no flavor: an accelerator and mig-PROFILE, shared or whole",
                    fix="Write for example h100-mig-1g.10gb, l4-shared or h100-whole",
                )
            if limits.lending_limit is not None and limits.lending_limit > limits.nominal:
                yield Problem(
                    path=(*here, "lending_limit"),
                    what=f"is {limits.lending_limit}, more than its nominal of {limits.nominal}",
                    fix=f"Write {limits.nominal} or less, or leave it out to lend all",
                )


def _cap(limits: FlavorLimits, here: Path) -> Iterator[Problem]:
    """Rule V9: a number for whole GPUs of an accelerator is the most that an entry has, and not lent."""
    for key in ("borrowing_limit", "lending_limit"):
        if getattr(limits, key) is not None:
            fix = "Leave it out: the plain numbers say what is lent"
            yield Problem(path=(*here, key), what="is given for whole GPUs, whose number is not lent", fix=fix)


def _classes(policy: PolicyFile) -> Iterator[Problem]:
    known = {entry.name for entry in entries(policy)}
    values: dict[int, str] = {}
    for name, priority in policy.classes.items():
        here: Path = ("classes", name)
        if priority.borrows and not priority.yields:
            yield Problem(
                path=(*here, "borrows"),
                what="is true for a class that does not yield, so what it borrows could not be taken back",
                fix="Set yields: true too, or borrows: false",
            )
        if priority.value in values:
            yield Problem(
                path=(*here, "value"),
                what=f"{priority.value} is also the value of class {values[priority.value]!r}",
                fix="Give every class a value of its own",
            )
        values.setdefault(priority.value, name)
        for place, team in enumerate(priority.teams or ()):
            if team not in known:
                yield Problem(path=(*here, "teams", place), what=f"team {team!r} is unknown", fix=closest(team, known))


def _default_classes(policy: PolicyFile) -> Iterator[Problem]:
    named = policy.default_class.model_dump()
    for kind, name in named.items():
        if name not in policy.classes:
            yield Problem(
                path=("default_class", kind), what=f"class {name!r} is unknown", fix=closest(name, policy.classes)
            )
    if any(name not in policy.classes for name in named.values()):
        return
    yield from _service_class(policy)
    backfill = policy.classes[named["backfill"]]
    if not backfill.yields:
        yield Problem(
            path=("default_class", "backfill"),
            what=f"class {named['backfill']!r} does not yield, but backfill always does",
            fix="Name a class with yields: true",
        )


def _service_class(policy: PolicyFile) -> Iterator[Problem]:
    """Invariant I4: serving takes back, training never takes from serving, and serving never borrows."""
    name = policy.default_class.service
    serving = policy.classes[name]
    for key in ("borrows", "yields"):
        if getattr(serving, key):
            yield Problem(
                path=("classes", name, key),
                what=f"is true for the class of services: serving never {key}",
                fix=f"Write {key}: false, or name another class in default_class.service",
            )
    highest = max(policy.classes, key=lambda other: policy.classes[other].value)
    if highest != name:
        yield Problem(
            path=("classes", name, "value"),
            what=f"is {serving.value}, below the {policy.classes[highest].value} of class {highest!r}",
            fix="Give the class of services the highest value",
        )
    for kind in ("gang", "backfill"):
        if getattr(policy.default_class, kind) == name:
            yield Problem(
                path=("default_class", kind),
                what=f"class {name!r} is the class of services",
                fix="Name a class below it",
            )


def _contract(policy: PolicyFile) -> Iterator[Problem]:
    drain = policy.drain
    if drain.grace > drain.longest_grace:
        yield Problem(
            path=("drain", "grace"),
            what=f"is {drain.grace:g} s, above longest_grace of {drain.longest_grace:g} s",
            fix="Lower it, or raise longest_grace",
        )


def _headroom(policy: PolicyFile) -> Iterator[Problem]:
    serving = policy.classes[policy.default_class.service]
    teams = [entry for entry in entries(policy) if entry.is_team and may_use(entry, serving)]
    nominal = sum(nominal_gpus(entry.team) for entry in teams)
    for key in ("immediate", "min"):
        gpus = getattr(policy.headroom, key)
        if gpus > nominal:
            yield Problem(
                path=("headroom", key),
                what=f"is {gpus} GPUs, but the teams that may serve have {nominal} together",
                fix=f"Write {nominal} or less",
            )
    least, most = policy.headroom.min, policy.headroom.max
    if most is not None and least > most:
        yield Problem(path=("headroom", "min"), what=f"is {least}, above max of {most}", fix="Lower min or raise max")
    if policy.headroom.quantile is None and (least or most is not None):
        yield Problem(
            path=("headroom", "min" if least else "max"),
            what="bounds a forecast, but no quantile asks for one",
            fix="Add quantile: 0.99, or leave it out",
        )


def _boundary(policy: PolicyFile) -> Iterator[Problem]:
    """Rule B4: each of the two teams has nominal of its own, and may submit at its class."""
    if policy.boundary is None:
        return
    teams = {entry.name: entry for entry in entries(policy) if entry.is_team}
    for key, kind in (("serving", "service"), ("training", "gang")):
        name, priority = getattr(policy.boundary, key), getattr(policy.default_class, kind)
        if name not in teams:
            yield Problem(path=("boundary", key), what=f"team {name!r} is unknown", fix=closest(name, teams))
        elif not may_use(teams[name], policy.classes[priority]):
            yield Problem(
                path=("boundary", key),
                what=f"team {name!r} may not submit at class {priority!r}",
                fix=f"Name another team, or add it to classes.{priority}.teams",
            )
    if policy.boundary.serving == policy.boundary.training:
        yield Problem(path=("boundary", "training"), what="is the team of serving too", fix="Name another team")


def _services(policy: PolicyFile) -> Iterator[Problem]:
    for name, rules in policy.services.items():
        if rules.spread is not None and rules.spread not in policy.topology.levels:
            yield Problem(
                path=("services", name, "spread"),
                what=f"{rules.spread!r} is no topology level",
                fix=closest(rules.spread, policy.topology.levels),
            )
        if name in rules.apart_from:
            yield Problem(
                path=("services", name, "apart_from"),
                what="names the service itself",
                fix="Write per_node: 1 to have no two replicas of it on one node",
            )


def _spares(policy: PolicyFile) -> Iterator[Problem]:
    level = policy.spares.level
    if level is not None and level not in policy.topology.levels:
        yield Problem(
            path=("spares", "level"),
            what=f"{level!r} is no topology level",
            fix=closest(level, policy.topology.levels),
        )


def _right_size(policy: PolicyFile) -> Iterator[Problem]:
    rules = policy.right_size
    if rules.below_percent > rules.target_percent:
        yield Problem(
            path=("right_size", "below_percent"),
            what=f"is {rules.below_percent}, above target_percent of {rules.target_percent}: that would not be smaller",
            fix=f"Write {rules.target_percent} or less",
        )


def _defaults(policy: PolicyFile) -> Iterator[Problem]:
    defaults = policy.defaults
    if defaults.gpus > policy.topology.gpus_per_node:
        yield Problem(
            path=("defaults", "gpus"),
            what=f"is {defaults.gpus} GPUs, but a node has {policy.topology.gpus_per_node}",
            fix="Ask for less a node, and for more nodes",
        )
    if defaults.team is None:
        return
    teams = {entry.name: entry for entry in entries(policy) if entry.is_team}
    name = policy.default_class.gang if defaults.kind == "gang" else policy.default_class.backfill
    if defaults.team not in teams:
        yield Problem(
            path=("defaults", "team"), what=f"team {defaults.team!r} is unknown", fix=closest(defaults.team, teams)
        )
    elif not may_use(teams[defaults.team], policy.classes[name]):
        yield Problem(
            path=("defaults", "team"),
            what=f"team {defaults.team!r} may not submit at class {name!r}, the default for {defaults.kind}",
            fix=f"Add it to classes.{name}.teams, or name another team",
        )
