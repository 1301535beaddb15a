"""The repository keeps its own promises: layout, lock file, blind engine, numbered rules, links that lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fleet_app"
ENGINE = sorted((PACKAGE / "engine").glob("*.py"))
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "charts").rglob("*.md")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()

LAYOUT = [
    *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", ".ci/run", "requirements.lock"),
    *("fleet_app", "clusters", "serve_configs", "jobs", "tests", "charts/fleet/README.md", "Dockerfile", "benchmarks"),
    *("docs/adr", "docs/rules.md", "docs/glossary.md"),
]

NOT_PURE = frozenset(
    {"asyncio", "datetime", "io", "logging", "os", "pathlib", "random", "secrets", "socket", "subprocess", "sys"}
    | {"tempfile", "threading", "time", "uuid"}
)


def relative(path: Path) -> str:
    """Return a path as it is named inside the repository."""
    return str(path.relative_to(ROOT))


def imported(path: Path) -> set[str]:
    """Return the names of the modules that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("name", LAYOUT)
def test_what_people_look_for_is_where_they_look_for_it(name):
    assert (ROOT / name).exists()


def test_the_engine_imports_with_no_site_packages_at_all():
    names = ", ".join(f"fleet_app.engine.{path.stem}" for path in ENGINE if path.stem != "__init__")
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {names}"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.stem)
def test_the_engine_imports_itself_and_what_is_pure_of_the_standard_library(path):
    others = {name for name in imported(path) if name.split(".")[0:2] != ["fleet_app", "engine"]}
    roots = {name.split(".")[0] for name in others}
    assert roots <= sys.stdlib_module_names - NOT_PURE


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_every_module_says_what_it_is_for_and_is_short_enough_to_read(path):
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 400


def test_the_lock_file_names_no_index_and_has_a_hash_for_everything():
    pinned = re.findall(r"^[a-z0-9][^\n]*==[^\n]*(?:\n    --hash=sha256:[0-9a-f]{64}(?: \\)?)*", LOCK, re.MULTILINE)
    assert len(pinned) > 50
    assert [entry.splitlines()[0] for entry in pinned if "--hash" not in entry] == []
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_the_lock_file_has_every_dependency_but_torch():
    extras = PROJECT["project"]["optional-dependencies"]
    asked = [*PROJECT["project"]["dependencies"], *extras["demo"], *extras["dev"]]
    names = {re.split(r"[\[<>=!~ ]", entry)[0].lower() for entry in asked}
    pinned = set(re.findall(r"^([a-z0-9-]+)==", LOCK, re.MULTILINE))
    assert names - pinned == set()
    assert "torch" not in pinned


def test_the_command_is_there():
    module, _, attribute = PROJECT["project"]["scripts"]["fleet"].partition(":")
    path = ROOT / (module.replace(".", "/") + ".py")
    assert path.exists()
    assert re.search(rf"^{attribute}\b", path.read_text(), re.MULTILINE)


def test_what_lands_is_tested_and_checked():
    script = ROOT / ".ci" / "run"
    lines = script.read_text().splitlines()
    assert script.stat().st_mode & 0o100
    assert {"make test || failed=1", "make check || failed=1"} <= set(lines)


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_every_link_leads_somewhere(path):
    links = re.findall(r"\]\((?!\w+:)([^)#\s]+)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []
