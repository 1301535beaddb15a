"""Archives of all images that pods of a bed are made of, each made once and kept in the bed. Does not know the pods."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import image
from tests.cluster.bed import oci
from tests.cluster.bed.build import COREDNS, KUBERAY, PAUSE, Module, built
from tests.tools import bed

SOURCES = ("Dockerfile", "image", "pyproject.toml", "requirements.lock", "fleet_app", "jobs", "serve_configs")
KEPT = 3


def all_of_them() -> list[Path]:
    """Return the archives, made first if need be. Raises UnavailableError."""
    return [_program(module) for module in (PAUSE, COREDNS, KUBERAY)] + [_fleet()]


def name(module: Module) -> str:
    """Return the name of the image of a module's only program."""
    return f"localhost/{module.programs[0]}:1"


def _program(module: Module) -> Path:
    program = built(module) / module.programs[0]
    archive = program.with_suffix(".tar")
    if not archive.exists():
        part = archive.with_suffix(".part")
        oci.write(part, name(module), program)
        part.replace(archive)
    return archive


def _fleet() -> Path:
    """Return the archive of the fleet's image as the sources here are now. One process makes it, others wait."""
    home = bed() / "archives"
    home.mkdir(parents=True, exist_ok=True)
    archive = home / f"fleet-{_key()}.tar"
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            part = archive.with_suffix(".part")
            image.build(part)
            part.replace(archive)
        archive.touch()
        for old in sorted(home.glob("fleet-*.tar"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink()
    return archive


def _key() -> str:
    digest = hashlib.sha256()
    for path in _files():
        digest.update(f"{path.relative_to(image.ROOT)} {path.stat().st_mode:o}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _files() -> Iterator[Path]:
    for source in SOURCES:
        root = image.ROOT / source
        found = sorted(root.rglob("*")) if root.is_dir() else [root]
        yield from (path for path in found if path.is_file() and "__pycache__" not in path.parts)
