# /// script
# requires-python = ">=3.11"
# dependencies = ["cosmic-ray==8.7.0"]
# ///
"""Change the engine's code in one small way at a time, and see whether a test notices (docs/mutation.md).

Cosmic Ray makes the mutants (cosmic-ray.toml says which). Here: a copy of the tree to make them in, a random sample of
each module's, the module's own tests first, laws for what passes those, and what came of it.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.config import load_config
from cosmic_ray.modules import filter_paths, find_modules
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.tools.filters.operators_filter import OperatorsFilter
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkResult

LAWS = "FLEET_LAWS=quick {python} -m pytest -x -q -p no:cacheprovider -p no:xdist -o timeout=0 tests/laws"
CONFIG = "mutants/cosmic-ray.toml"
LISTED = Path("docs/mutation.md")
LEAST = 2

LAWS_LONGER = 5
"""How many times as long as the tests the laws may take."""

PATIENCE = 10
"""How many seconds may pass for one of the processor: on a busy machine a mutant is slow, which nobody noticed."""

MEMORY_KIB = 8 * 1024 * 1024
"""What a mutant may take of the memory, which others use too."""

LOOPED = 128 + signal.SIGXCPU


def main() -> int:
    """Return 0 if each mutant of the sample was noticed, or docs/mutation.md says why it was not."""
    options = _options()
    files = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], text=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as tree:
        _copy(files.split("\0"), Path(tree))
        os.chdir(tree)
        return _check(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", default="300", help="how many mutants in all, or `all`")
    parser.add_argument("--each", type=int, default=0, help="how many mutants of each module, whatever its share")
    parser.add_argument("--seed", default="1", help="another seed, another sample")
    parser.add_argument("--only", default="", help="modules, with commas between: their part of the sample")
    parser.add_argument("--python", required=True, help="the interpreter that has what the tests need")
    return parser.parse_args()


def _copy(files: Iterable[str], tree: Path) -> None:
    """Copy what git knows or would take, all of it old: no mutant may be taken for the compiled file of what it was."""
    for name in filter(os.path.isfile, files):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(name, tree / name)
        os.utime(tree / name, (0, 0))


def _check(options: argparse.Namespace) -> int:
    config = load_config(CONFIG)
    tests = config.test_command.replace("python", options.python, 1)
    if subprocess.run(tests.split(), check=False).returncode:
        print("mutants: the tests fail as it is; make them pass first", file=sys.stderr)
        return 2
    laws = LAWS.format(python=options.python)
    listed = LISTED.read_text(encoding="utf-8")
    counts: dict[str, Counter[str]] = {}
    for module, mutations in _sample(_mutations(), options):
        own = f"tests/unit/engine/test_{module}.py"
        first = f"{tests.split(' tests/')[0]} {own} && " if Path(own).exists() else ""
        for mutation in mutations:
            result = _tested(mutation, f"{first}{tests}", config.timeout)
            name = f"{module}.{mutation.definition_name}: {_change(result)}"
            if result.test_outcome is TestOutcome.SURVIVED and name not in listed:
                result = _tested(mutation, laws, config.timeout * LAWS_LONGER)
            outcome = _outcome(result, known=name in listed)
            counts.setdefault(module, Counter())[outcome] += 1
            print(f"{outcome}\t{name}", flush=True)
    return _report(counts)


def _tested(mutation: MutationSpec, tests: str, cpu_s: float) -> WorkResult:
    """Return what tests say of a mutant; one that takes that much of the processor loops."""
    limited = f"ulimit -t {cpu_s:.0f}; ulimit -v {MEMORY_KIB}; {tests}; code=$?; echo rc=$code; exit $code"
    return mutate_and_test([mutation], f"sh -c '{limited}'", cpu_s * PATIENCE)


def _mutations() -> dict[str, list[MutationSpec]]:
    """Return every mutant that the configuration leaves, by module, in an order that only the code decides."""
    config = load_config(CONFIG)
    modules: dict[str, list[MutationSpec]] = {}
    with use_db("session.sqlite") as session:
        paths = filter_paths(find_modules([Path(config["module-path"])]), config["excluded-modules"])
        init(sorted(paths), session, {})
        OperatorsFilter().filter(session, argparse.Namespace(config=CONFIG))
        for item in session.pending_work_items:
            (mutation,) = item.mutations
            modules.setdefault(mutation.module_path.stem, []).append(mutation)
    for mutations in modules.values():
        aside = list(_aside(mutations[0].module_path))
        mutations[:] = [one for one in mutations if not any(low <= one.start_pos < high for low, high in aside)]
        mutations.sort(key=lambda one: (one.operator_name, one.occurrence))
    return {module: mutations for module, mutations in modules.items() if mutations}


def _aside(path: Path) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where decorators, types and `zip(strict=...)` stand: what the code says of itself, and no more."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        parts = [
            *getattr(node, "decorator_list", ()),
            getattr(node, "annotation", None),
            getattr(node, "returns", None),
        ]
        match node:
            case ast.Call(func=ast.Name(id="zip"), keywords=keywords):
                parts += [keyword.value for keyword in keywords]
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, types]):
                parts.append(types)
            case ast.Assign(value=ast.BinOp(op=ast.BitOr()) as types) if node in tree.body:
                parts.append(types)
        for part in filter(None, parts):
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)


def _sample(
    modules: dict[str, list[MutationSpec]], options: argparse.Namespace
) -> Iterator[tuple[str, list[MutationSpec]]]:
    """Yield each module's share of the sample; of one seed, a larger sample has the smaller one in it."""
    total = sum(map(len, modules.values()))
    for module in options.only.split(",") if options.only else sorted(modules):
        mutations = modules.get(module, [])
        if not mutations:
            continue
        share = total if options.sample == "all" else round(int(options.sample) * len(mutations) / total)
        yield module, _drawn(mutations, options.seed)[: options.each or max(share, LEAST)]


def _drawn(mutations: list[MutationSpec], seed: str) -> list[MutationSpec]:
    """Return a module's mutants in an order of chance, each by itself: a change elsewhere in the file moves none."""
    lines = mutations[0].module_path.read_text(encoding="utf-8").splitlines()
    met: Counter[str] = Counter()
    lots: dict[int, bytes] = {}
    for one in mutations:
        line = lines[one.start_pos[0] - 1]
        column = one.start_pos[1] - len(line) + len(line.lstrip())
        lot = f"{seed} {one.definition_name} {one.operator_name} {line.strip()} {column}"
        met[lot] += 1
        lots[id(one)] = hashlib.sha256(f"{lot} {met[lot]}".encode()).digest()
    return sorted(mutations, key=lambda one: lots[id(one)])


def _change(result: WorkResult) -> str:
    lines = (result.diff or "").splitlines()
    was, becomes = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign) and not line.startswith(sign * 3))
        for sign in "-+"
    )
    return f"`{was}` -> `{becomes}`"


def _outcome(result: WorkResult, *, known: bool) -> str:
    if result.test_outcome is TestOutcome.SURVIVED:
        return "listed" if known else "survived"
    if result.test_outcome is not TestOutcome.KILLED:
        return "broken"
    if result.output == "timeout":
        return "late"
    return "looped" if result.output.endswith(f"rc={LOOPED}\n") else "killed"


def _report(counts: dict[str, Counter[str]]) -> int:
    print(f"\n{'module':<20}{'mutants':>8}{'noticed':>8}{'listed':>8}{'survived':>9}")
    whole: Counter[str] = sum(counts.values(), Counter())
    for module, count in [*counts.items(), ("all", whole)]:
        noticed = count["killed"] + count["looped"]
        left = count.total() - noticed - count["listed"]
        print(f"{module:<20}{count.total():>8}{noticed:>8}{count['listed']:>8}{left:>9}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
