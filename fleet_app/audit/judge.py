"""Asks the guards' own expressions of objects, with the official CEL runtime: what admission would say of each.

Each object is looked at as if it were created now. Guards of what happens to an object (an eviction, a change of class)
have nothing to say of one that merely exists, and are left out. What no object says of itself, such as whom a budget
really selects, comes in as the value of a guard's variable; the expressions stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from cel_expr_python import cel

from fleet_app.audit.things import Finding, Object, Thing
from fleet_app.engine.errors import FaultError, RequestError
from fleet_app.render.guards import Guard

Answer = TypeVar("Answer")

_VARIABLES = ("object", "oldObject", "request", "params", "namespaceObject", "variables")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What admission is asked beside the object: what happens to it, where, by whom, and what was there before."""

    operation: str = "CREATE"
    name: str = ""
    namespace: str = ""
    user: str = ""
    before: Object | None = None
    held: Object | None = None
    """The ConfigMap in which the arbiter names what holds a gang."""


class _UnreadableError(Exception):
    """An expression came upon something that is not as Kubernetes has it."""


class Bench:
    """The guards, compiled once."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        """Compile every expression. Raises FaultError for one that is no CEL."""
        env = cel.NewEnv(variables=dict.fromkeys(_VARIABLES, cel.Type.DYN))
        self._guards = tuple(_Compiled(guard, env) for guard in guards)

    def judge(self, thing: Thing, default_namespace: str, known: Mapping[str, Any] | None = None) -> list[Finding]:
        """Return what an object that exists breaks; `known` has values of variables that nobody need ask for."""
        namespace = thing.namespace(default_namespace)
        request = Request(name=thing.name, namespace=namespace)
        return [
            Finding(
                rule=rule,
                kind=thing.kind,
                namespace=namespace if thing.kind != "Node" else "",
                name=thing.name,
                message=message,
                source=thing.source,
                line=thing.line,
                refused=guard.guard.refuses,
            )
            for guard in self._of(thing)
            for rule, message in _readable(thing, guard.refusals(thing.object, request, known or {}))
        ]

    def templates(self, thing: Thing) -> list[Object]:
        """Return the pods of gangs that an object would make, as the guards see them."""
        request = Request(name=thing.name)
        return [
            each for guard in self._of(thing) for each in _readable(thing, guard.values(thing.object, request, "gangs"))
        ]

    def refusals(self, kind: str, thing: Object, request: Request) -> list[tuple[str, str]]:
        """Return what admission would say of a request: each rule that refuses, with its message."""
        return [
            found
            for guard in self._guards
            if request.operation in guard.guard.operations and any(kind in kinds for kinds in guard.kinds.values())
            for found in guard.refusals(thing, request, {})
        ]

    def _of(self, thing: Thing) -> Iterator[_Compiled]:
        for each in self._guards:
            exists = "CREATE" in each.guard.operations and not each.guard.held
            if exists and thing.kind in each.kinds.get(thing.group, ()):
                yield each


class _Compiled:
    """One guard that can be asked."""

    def __init__(self, guard: Guard, env: Any) -> None:
        self.guard = guard
        self.kinds: dict[str, Sequence[str]] = {each.group: tuple(each.kinds.values()) for each in guard.targets}
        self._conditions = [_compile(env, guard, each.expression) for each in guard.conditions]
        self._variables = [(each.name, _compile(env, guard, each.expression)) for each in guard.variables]
        self._checks = [
            (each.rule, _compile(env, guard, each.expression), _compile(env, guard, each.message))
            for each in guard.checks
        ]

    def refusals(self, thing: Object, request: Request, known: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        data = _data(thing, request)
        if not all(self._ask(condition, data) for condition in self._conditions):
            return
        self._fill(data, known)
        for rule, holds, message in self._checks:
            if not self._ask(holds, data):
                yield rule, str(self._ask(message, data))

    def values(self, thing: Object, request: Request, name: str) -> Iterator[Object]:
        """Yield what a variable lists, nothing where the guard has none of that name."""
        if any(variable == name for variable, _ in self._variables):
            data = _data(thing, request)
            self._fill(data, {})
            yield from data["variables"][name]

    def _fill(self, data: dict[str, Any], known: Mapping[str, Any]) -> None:
        for name, expression in self._variables:
            data["variables"][name] = known[name] if name in known else self._ask(expression, data)

    def _ask(self, expression: Any, data: Mapping[str, Any]) -> Any:
        answer = expression.eval(data=data)
        if answer.type() == cel.Type.ERROR:
            raise _UnreadableError(str(answer.value()))
        return answer.plain_value()


def _readable(thing: Thing, answers: Iterator[Answer]) -> Iterator[Answer]:
    """Yield what was found. Raises RequestError where the object is none that the API server would take."""
    try:
        yield from answers
    except _UnreadableError as error:
        what = f"{thing.kind} {thing.name} is not as Kubernetes has it: {error}"
        raise RequestError(what, where=thing.where, fix="Give what kubectl would apply") from error


def _compile(env: Any, guard: Guard, expression: str) -> Any:
    try:
        return env.compile(expression)
    except Exception as error:  # the runtime raises nothing more exact
        raise FaultError(f"is no CEL: {error}", where=f"guard {guard.name}") from error


def _data(thing: Object, request: Request) -> dict[str, Any]:
    return {
        "object": thing,
        "oldObject": request.before,
        "request": {
            "operation": request.operation,
            "name": request.name,
            "namespace": request.namespace,
            "userInfo": {"username": request.user},
        },
        "params": request.held,
        "namespaceObject": None,
        "variables": {},
    }
