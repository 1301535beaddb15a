"""The image of the Dockerfile, made without a container engine and without a registry.

`python -m tests.cluster.image ARCHIVE` writes it as an OCI archive. The base is Debian's own bookworm instead of the
Debian image of a registry; packages, files and settings come from the same places as the Dockerfile's: image/ and the
Dockerfile itself. Needs root, mmdebstrap and buildah. What can be kept is kept in the bed, by its contents: a change of
the fleet's code makes one small layer. Does not know how an archive gets into a cluster.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.tools import UnavailableError, bed

ROOT = Path(__file__).parents[2]
NAME = "localhost/fleet:test"
DEBIAN = "bookworm"
NEEDED = ("mmdebstrap", "buildah")
BUILD_WITHIN_S = 900

# buildah's words for what the Dockerfile says.
_SETTINGS = {"LABEL": "--label", "ENV": "--env", "USER": "--user", "WORKDIR": "--workingdir", "CMD": "--cmd"}


def build(archive: Path, name: str = NAME, extras: str = "") -> None:
    """Write the image as an OCI archive. Raises UnavailableError where it cannot be made."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        raise UnavailableError(f"an image needs root and {' and '.join(missing or NEEDED)} (Debian packages)")
    store = _Store(bed() / "image")
    lower = store.lower(extras)
    with tempfile.TemporaryDirectory(dir=store.home) as folder:
        run(str(ROOT / "image/install.sh"), "project", folder)
        store.commit(lower, [("copy", Path(folder))], name, settings())
    archive.unlink(missing_ok=True)
    store.buildah("push", "--quiet", *store.trust, name, f"oci-archive:{archive}:{name}")
    store.buildah("rmi", "--prune")  # what had the name before


def packages() -> list[str]:
    """Return the Debian packages that are in the image."""
    return (ROOT / "image/packages.txt").read_text(encoding="utf-8").split()


def settings() -> list[str]:
    """Return what the Dockerfile's last stage sets, as options of `buildah config`.

    Without its health check, which an OCI image has no place for.
    """
    return [option for word, rest in _last_stage() if word in _SETTINGS for option in _options(word, rest)]


def _options(word: str, rest: str) -> Iterator[str]:
    for value in [rest] if word in {"USER", "WORKDIR", "CMD"} else shlex.split(rest):
        yield from (_SETTINGS[word], value)


def _last_stage() -> list[tuple[str, str]]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    said = [line.split(maxsplit=1) for line in lines if line.strip() and not line.startswith("#")]
    last = max(at for at, (word, _) in enumerate(said) if word == "FROM")
    return [(word, rest) for word, rest in said[last:]]


class _Store:
    """Images of buildah's in a folder of the bed."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        policy = home / "policy.json"
        policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}', encoding="utf-8")
        self.home = home
        self.trust = ("--signature-policy", str(policy))

    def buildah(self, command: str, *words: str) -> str:
        where = ("--root", str(self.home / "store"), "--runroot", str(self.home / "run"), "--storage-driver", "overlay")
        return run("buildah", *where, command, *words)

    def lower(self, extras: str) -> str:
        """Return the image below the fleet's own code: Debian and what the lock file names, made once."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        wanted = [extras, project["dependencies"], project["optional-dependencies"]]
        digest = hashlib.sha256(json.dumps(wanted).encode())
        for source in ("image/packages.txt", "image/install.sh", "requirements.lock"):
            digest.update((ROOT / source).read_bytes())
        name = f"localhost/fleet-lower:{digest.hexdigest()[:16]}"
        if name not in self.buildah("images", "--format", "{{.Name}}:{{.Tag}}").split():
            with tempfile.TemporaryDirectory(dir=self.home) as folder:
                run(str(ROOT / "image/install.sh"), "dependencies", folder, env={"EXTRAS": extras})
                self.commit("scratch", [("add", self._debian()), ("copy", Path(folder))], name, [])
        return name

    def commit(self, base: str, parts: Sequence[tuple[str, Path]], name: str, config: Sequence[str]) -> None:
        """Make an image of another one and of what is put on top of it."""
        container = self.buildah("from", "--pull-never", *self.trust, base).strip()
        try:
            for how, path in parts:
                self.buildah(how, "--quiet", container, str(path), "/")
            if config:
                self.buildah("config", *config, container)
            self.buildah("commit", "--quiet", *self.trust, container, name)
        finally:
            self.buildah("rm", container)

    def _debian(self) -> Path:
        """Return an archive of Debian with the packages of the image, made once for each list of them."""
        wanted = packages()
        archive = self.home / f"{DEBIAN}-{hashlib.sha256(' '.join(wanted).encode()).hexdigest()[:16]}.tar"
        if not archive.exists():
            part = archive.with_suffix(".part.tar")
            run(
                *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(wanted)}"),
                '--aptopt=APT::Install-Recommends "false"',
                *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in ("doc", "man", "locale")),
                *(DEBIAN, str(part)),
            )
            part.replace(archive)
        return archive


def run(*command: str, env: dict[str, str] | None = None) -> str:
    """Run a command to its end; return what it printed. Raises UnavailableError with its last words."""
    whole = {**os.environ, **(env or {})}
    try:
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=BUILD_WITHIN_S, env=whole, cwd=ROOT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{command[0]}: {error}") from error
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{' '.join(command[:2])}: {(error.stderr or error.stdout)[-1000:]}") from error
    return done.stdout


if __name__ == "__main__":
    build(Path(sys.argv[1]), extras=os.environ.get("EXTRAS", ""))
