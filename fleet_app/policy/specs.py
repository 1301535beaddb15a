"""What a user submits: a workload's spec and its job, checked against the policy; and what a service may ask.

A refusal here is final and changes nothing: what passes may still have to wait, and the engine says why. Does not know
what runs now, which names are taken, or Ray.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic_core import PydanticCustomError

from fleet_app.engine.artifacts import Artifact
from fleet_app.engine.cards import Slice
from fleet_app.engine.values import Shape
from fleet_app.engine.workload import Kind, Workload, widest
from fleet_app.policy.asks import Ask, check_ask
from fleet_app.policy.document import read_document
from fleet_app.policy.groups import (
    SHAPE_KEYS,
    GroupSpecs,
    check_groups,
    read_groups,
    refuse_shapes_beside_groups,
    to_groups,
)
from fleet_app.policy.problems import Problem, closest, from_pydantic, refuse
from fleet_app.policy.schema import NoticeKind, PolicyFile, WorkloadKind
from fleet_app.policy.section import Section
from fleet_app.policy.slices import Partition, Share, SliceAsk, check_slice, refuse_gpus_beside_a_slice
from fleet_app.policy.units import Mebibytes, MilliCpus, Name, PositiveGpus, PositiveSeconds

Model = TypeVar("Model", bound=BaseModel)

_WHOLE = re.compile(r"[-+]?[0-9]{1,40}", re.ASCII)
_ATTEMPT = re.compile(r".*\.[0-9]+", re.ASCII)
_MOST_ENTRYPOINT = 64 * 1024


def _check_workload_name(value: str) -> str:
    if _ATTEMPT.fullmatch(value):
        must = "must not end in a point and digits, which number a workload's attempts"
        fix = f"Write for example {value.replace('.', '-')}"
        raise PydanticCustomError("fleet", "{must}", {"must": must, "fix": fix})
    return value


def _check_entrypoint(value: str) -> str:
    if not value.strip() or "\0" in value or len(value) > _MOST_ENTRYPOINT:
        must = f"must be a command of 1 to {_MOST_ENTRYPOINT} characters without NUL"
        raise PydanticCustomError("fleet", "{must}", {"must": must, "fix": "Write for example python train.py"})
    return value


class ArtifactSpec(Section):
    """An image or weights that a node must have: its `size`, and its `source`, a registry or store of the policy."""

    name: Name
    size: Mebibytes
    source: Name


class WorkloadSpec(Section):
    """A gang or backfill job as asked for: `nodes` bundles, one a node, all or none.

    A bundle is `gpus` GPUs, `cpus` thousandths of a CPU and `memory` MiB; with `groups` the bundles are theirs, and
    those keys mean nothing. With `min_nodes` it is elastic: it runs with that many bundles or more. `priority` names a
    class. `within` names the topology level that must hold all of it. `grace` and `max_run_time` are in seconds. An
    `interactive` session ends when nobody uses it. `notice` is how a drain is raised: by the fleet's library inside the
    job, or also by SIGTERM. In place of `gpus` one bundle may ask for a `partition` of a card, by MIG profile,
    or for a `share` of one in ten-thousandths.
    """

    name: Annotated[Name, AfterValidator(_check_workload_name)]
    kind: WorkloadKind
    team: Name
    priority: Name
    nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    min_nodes: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = None
    gpus: PositiveGpus = 1
    cpus: MilliCpus = 1000
    memory: Mebibytes = 0
    groups: GroupSpecs | None = None
    within: Name | None = None
    accelerator: Name | None = None
    grace: PositiveSeconds
    max_run_time: PositiveSeconds | None = None
    interactive: Annotated[bool, Field(strict=True)] = False
    artifacts: Annotated[tuple[ArtifactSpec, ...], Field(max_length=64)] = ()
    notice: NoticeKind
    partition: Partition | None = None
    share: Share | None = None

    @property
    def total_gpus(self) -> int:
        """Return the whole GPUs of all bundles together; of an elastic one those that it cannot be without."""
        if self.slice is not None:
            return 0
        if self.groups:
            return sum(group.total_gpus for group in self.groups.values())
        return (self.min_nodes or self.nodes) * self.gpus

    @property
    def slice(self) -> Slice | None:
        """Return the part of a card that it asks for; None when it asks for whole GPUs."""
        return _slice_ask(self).slice

    @model_serializer(mode="wrap")
    def _said_once(self, whole: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what groups, or part of a GPU, say already, so that what is written can be read again."""
        values: dict[str, object] = whole(self)
        said = SHAPE_KEYS if self.groups else ("gpus",) if self.slice is not None else ()
        return {key: value for key, value in values.items() if key not in said}


class ServiceSpec(Section):
    """What a service may ask: replicas of one shape, or of part of a GPU; `floor` are never trimmed, at most `max`.

    And where they are to be, with what the policy says: `spread` over the domains of a topology level, at most
    `per_node` on a node, none beside those of the services `apart_from`.
    """

    name: Name
    kind: Literal["service"] = "service"
    team: Name
    gpus: PositiveGpus = 1
    cpus: MilliCpus = 1000
    memory: Mebibytes = 0
    floor: Annotated[int, Field(strict=True, ge=0, le=100_000)] = 0
    max: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 100_000
    partition: Partition | None = None
    share: Share | None = None
    spread: str | None = None
    per_node: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None
    apart_from: tuple[Name, ...] = ()


class JobPart(Section):
    """The part of a submission that is Ray's: the command, its runtime environment, the user's own metadata."""

    entrypoint: Annotated[str, AfterValidator(_check_entrypoint)]
    runtime_env: dict[str, object] = Field(default_factory=dict)
    metadata: dict[str, str] = Field(default_factory=dict)


SPEC_KEYS = frozenset(WorkloadSpec.model_fields)
JOB_KEYS = frozenset(JobPart.model_fields)
_COUNTS = ("nodes", "min_nodes", "gpus")
_FLAGS = ("interactive",)
_SAID = {"true": True, "false": False}


def load_spec(path: Path | str) -> dict[str, object]:
    """Return the mapping in a submission's YAML file, values as they stand; raise RequestError when it is none."""
    return read_document(Path(path)).values


def spec_from_metadata(
    name: str, metadata: Mapping[str, str], policy: PolicyFile, fleet_gpus: int | None = None
) -> WorkloadSpec:
    """Return the spec in a Ray job's metadata, whose values are all text; the policy's defaults fill what is missing.

    Keys that are not the fleet's are the user's own and left alone, unless they look like a slip of one of them.
    Raises RequestError.
    """
    problems = [
        Problem(path=(key,), what="is not a key of the fleet", fix=f"{closest(key, SPEC_KEYS)} Else rename it")
        for key in metadata
        if key not in SPEC_KEYS and closest(key.lower(), SPEC_KEYS).startswith("Did you mean")
    ]
    refuse(problems, "metadata")
    given: dict[str, object] = {key: value for key, value in metadata.items() if key in SPEC_KEYS - {"name"}}
    for key in _COUNTS:
        if isinstance(text := given.get(key), str) and _WHOLE.fullmatch(text):
            given[key] = int(text)
    if "groups" in given:
        given["groups"] = read_groups(given["groups"], "metadata")
    for key in _FLAGS:
        if isinstance(text := given.get(key), str) and text in _SAID:
            given[key] = _SAID[text]
    return _spec({**given, "name": name}, policy, fleet_gpus, "metadata")


def spec_from_mapping(obj: Mapping[str, object], policy: PolicyFile, fleet_gpus: int | None = None) -> WorkloadSpec:
    """Return the spec in a mapping of natural types; the policy's defaults fill what is missing.

    `fleet_gpus`, when known, is what the fleet has in all: nothing larger is accepted. Raises RequestError.
    """
    return _spec(obj, policy, fleet_gpus, "spec")


def submission_from_mapping(
    obj: Mapping[str, object], policy: PolicyFile, fleet_gpus: int | None = None
) -> tuple[WorkloadSpec, JobPart]:
    """Return the spec and the job of a whole submission: a spec's keys beside entrypoint, runtime_env, metadata.

    Raises RequestError.
    """
    job = _validated(JobPart, {key: value for key, value in obj.items() if key in JOB_KEYS}, "submission")
    rest = {key: value for key, value in obj.items() if key not in JOB_KEYS}
    return _spec(rest, policy, fleet_gpus, "submission"), job


def service_from_mapping(obj: Mapping[str, object], policy: PolicyFile) -> ServiceSpec:
    """Return what a service asks, checked against the policy; raise RequestError."""
    refuse_gpus_beside_a_slice(obj, "service")
    spec = _validated(ServiceSpec, obj, "service")
    gpus = 0 if _slice_ask(spec).slice is not None else spec.gpus
    problems = check_ask(_ask(spec, policy.default_class.service, max(1, spec.floor) * gpus), policy)
    problems += check_slice(_slice_ask(spec), policy)
    if spec.floor > spec.max:
        problems.append(
            Problem(path=("floor",), what=f"is {spec.floor}, above max of {spec.max}", fix="Lower floor or raise max")
        )
    if spec.spread is not None and spec.spread not in policy.topology.levels:
        fix = closest(spec.spread, policy.topology.levels)
        problems.append(Problem(path=("spread",), what=f"{spec.spread!r} is no topology level", fix=fix))
    if spec.name in spec.apart_from:
        problems.append(Problem(path=("apart_from",), what="names the service itself", fix="Leave it out"))
    refuse(problems, f"service {spec.name}")
    return spec


def to_workload(spec: WorkloadSpec, policy: PolicyFile, submitted_at: float) -> Workload:
    """Return the engine's queued workload of a spec that this policy has accepted; `submitted_at` in seconds."""
    groups = to_groups(spec.groups or {})
    gpus = 0 if spec.slice is not None else spec.gpus
    return Workload(
        name=spec.name,
        kind=Kind(spec.kind),
        team=spec.team,
        priority=policy.classes[spec.priority].value,
        shape=widest(groups) if groups else Shape(gpus=gpus, cpu_milli=spec.cpus, memory_mib=spec.memory),
        bundles=sum(group.bundles for group in groups) or spec.nodes,
        groups=groups,
        minimum=spec.min_nodes,
        within=spec.within,
        accelerator=spec.accelerator,
        submitted_at=submitted_at,
        grace_s=spec.grace,
        max_run_s=spec.max_run_time,
        interactive=spec.interactive,
        artifacts=tuple(
            Artifact(name=one.name, size_mib=one.size, source=one.source)
            for one in sorted(spec.artifacts, key=lambda one: one.name)
        ),
        movable=spec.notice == "library",
        slice=spec.slice,
    )


def _spec(obj: Mapping[str, object], policy: PolicyFile, fleet_gpus: int | None, source: str) -> WorkloadSpec:
    if obj.get("kind") == "service":
        problem = Problem(
            path=("kind",),
            what="services are not submitted",
            fix="Deploy it with Ray Serve and the fleet's autoscaling policy; it then announces itself",
        )
        refuse([problem], source)
    refuse_shapes_beside_groups(obj, source)
    refuse_gpus_beside_a_slice(obj, source)
    spec = _validated(WorkloadSpec, {**_defaults(obj, policy), **obj}, source)
    refuse(_against_policy(spec, policy, fleet_gpus), f"{source} {spec.name}")
    return spec


def _defaults(obj: Mapping[str, object], policy: PolicyFile) -> dict[str, object]:
    """Return what the policy says for what a submission left out."""
    values = policy.defaults.model_dump(mode="json", exclude_none=True)
    kind = obj.get("kind", policy.defaults.kind)
    if kind == "gang":
        values |= {"priority": policy.default_class.gang, "notice": "library"}
    else:
        values |= {"priority": policy.default_class.backfill, "notice": "signal"}
    if obj.get("min_nodes") is not None:
        values["notice"] = "library"  # a signal reaches the driver, never one member
    return values | {"grace": f"{round(policy.drain.grace * 1000)}ms"}


def _validated(model: type[Model], obj: Mapping[str, object], source: str) -> Model:
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        refuse(from_pydantic(error, model), source)
        raise  # not reached: pydantic never reports an error without details


def _ask(spec: WorkloadSpec | ServiceSpec, priority: str, total_gpus: int) -> Ask:
    grouped = isinstance(spec, WorkloadSpec) and spec.groups
    sliced = _slice_ask(spec).slice is not None
    gpus = 0 if grouped or sliced else spec.gpus  # those of groups are checked by name
    return Ask(kind=spec.kind, team=spec.team, priority=priority, gpus=gpus, total_gpus=total_gpus)


def _slice_ask(spec: WorkloadSpec | ServiceSpec) -> SliceAsk:
    if isinstance(spec, ServiceSpec):
        return SliceAsk(kind=spec.kind, partition=spec.partition, share=spec.share)
    return SliceAsk(
        kind=spec.kind,
        partition=spec.partition,
        share=spec.share,
        alone=spec.nodes == 1 and spec.min_nodes is None and not spec.groups,
        accelerator=spec.accelerator,
    )


def _elastic(spec: WorkloadSpec) -> Iterator[Problem]:
    """A member leaves alone, so it has to be like the others, and to hear a notice that is no signal (R8)."""
    if spec.min_nodes is None:
        return
    path = ("min_nodes",)
    if spec.min_nodes > spec.nodes:
        yield Problem(
            path=path, what=f"is {spec.min_nodes}, above nodes of {spec.nodes}", fix="Lower it, or ask for more"
        )
    if spec.notice != "library":
        fix = "Leave notice out, and let the job use the fleet's library"
        yield Problem(path=("notice",), what="is a signal, which no member of an elastic workload would get", fix=fix)


def _against_policy(spec: WorkloadSpec, policy: PolicyFile, fleet_gpus: int | None) -> list[Problem]:
    problems = check_ask(_ask(spec, spec.priority, spec.total_gpus), policy)
    problems += check_groups(spec.groups, policy.topology.gpus_per_node) if spec.groups else ()
    problems += check_slice(_slice_ask(spec), policy)
    problems += _elastic(spec)
    if spec.within is not None and spec.within not in policy.topology.levels:
        problems.append(
            Problem(
                path=("within",),
                what=f"{spec.within!r} is no topology level",
                fix=closest(spec.within, policy.topology.levels),
            )
        )
    if spec.grace > policy.drain.longest_grace:
        problems.append(
            Problem(
                path=("grace",),
                what=f"is {spec.grace:g} s, above the policy's longest of {policy.drain.longest_grace:g} s",
                fix=f"Write {policy.drain.longest_grace:g}s or less",
            )
        )
    if fleet_gpus is not None and spec.total_gpus > fleet_gpus:
        has = f"are {spec.total_gpus}; the fleet has {fleet_gpus}"
        what = (
            f"the GPUs of all groups {has}"
            if spec.groups
            else f"{spec.min_nodes or spec.nodes} nodes of {spec.gpus} GPUs {has}"
        )
        path = ("groups",) if spec.groups else ("nodes",)
        problems.append(Problem(path=path, what=what, fix="Ask for fewer nodes"))
    return problems
