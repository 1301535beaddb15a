"""The programs of the test bed, built from their public Go modules: once for each set of versions, kept in the bed.

The go.mod and go.sum files under `tests/cluster/go` say what is built; a change of them, or of Go, is built anew
beside the old. Does not know how the programs are run.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tools import UnavailableError, bed

GO = Path(__file__).parents[1] / "go"
BUILD_WITHIN_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A folder with a go.mod, what of it is built, and the names that the programs get."""

    folder: str
    programs: Sequence[str]
    package: str = "tool"


ETCD = Module(folder="etcd", programs=("etcd",))
KUBERNETES = Module(
    folder="kubernetes",
    programs=("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"),
)
KUBERAY = Module(folder="kuberay", programs=("kuberay-operator",))
COREDNS = Module(folder="coredns", programs=("coredns",), package=".")
PAUSE = Module(folder="pause", programs=("pause",), package=".")


@functools.cache
def built(module: Module) -> Path:
    """Return the folder of the module's programs, built first if need be. Raises UnavailableError.

    Safe beside another process that wants the same: one builds, the other waits.
    """
    home = bed() / f"{module.folder}-{_key(module)}"
    bed().mkdir(parents=True, exist_ok=True)
    with (bed() / f"{module.folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            with tempfile.TemporaryDirectory(dir=bed(), prefix="build-") as folder:
                _build(module, Path(folder))
                (Path(folder) / "bin").rename(home)
    return home


def _build(module: Module, folder: Path) -> None:
    target = folder / "bin"
    target.mkdir()
    output = f"{target}/" if len(module.programs) > 1 else f"{target}/{module.programs[0]}"
    command = [_go(), "build", "-ldflags", _link_flags(module), "-o", output, module.package]
    try:
        subprocess.run(
            command,
            cwd=GO / module.folder,
            env=os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"},
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_WITHIN_S,
        )
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"cannot build {module.folder}: {error.stderr.strip()[-500:]}") from error
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{module.folder} was not built within {BUILD_WITHIN_S} s") from error


def kubernetes_version() -> str:
    """Return what go.mod asks for, such as `v1.34.4`."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (GO / "kubernetes" / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _link_flags(module: Module) -> str:
    """Tell Kubernetes its version: without, the server says v0.0.0-master, and Helm believes it."""
    if module is not KUBERNETES:
        return "-s -w"
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {package}.{name}={value}" for name, value in facts.items())])


def _key(module: Module) -> str:
    """Return what tells one build from another."""
    digest = hashlib.sha256(subprocess.check_output([_go(), "version"], timeout=60))
    for file in sorted((GO / module.folder).iterdir()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    digest.update(_link_flags(module).encode())
    return digest.hexdigest()[:12]


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("there is no Go here, and a control plane is built from Go modules: install Go 1.25")
    return go
