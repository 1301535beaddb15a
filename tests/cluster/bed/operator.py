"""KubeRay's operator, of the version that go.mod names: its CRDs, and itself beside the cluster or in a pod of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bed.build import KUBERAY, built
from tests.cluster.bed.client import Cluster
from tests.cluster.bed.control import ControlPlane
from tests.cluster.bed.programs import Programs
from tests.tools import kuberay

NAMESPACE = "kuberay-system"
NAME = "kuberay-operator"


def define(cluster: Cluster) -> None:
    """Add KubeRay's CRDs, which are too large for an apply on the client's side."""
    bases = kuberay() / "config" / "crd" / "bases"
    cluster.kubectl("apply", "--server-side", f"--filename={bases}", within_s=120)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"--filename={bases}", within_s=90)


def run_beside(programs: Programs, control: ControlPlane) -> None:
    """Run the operator as a program outside of the cluster: no node is needed."""
    config = control.authority.kubeconfig(NAME, f"/O=system:masters/CN={NAME}", control.server)
    closed = ["-metrics-addr=0", "-health-probe-bind-address=0", "-enable-leader-election=false"]
    programs.start(NAME, [built(KUBERAY) / NAME, f"-kubeconfig={config}", *closed])


def run_inside(cluster: Cluster, image: str) -> None:
    """Run the operator in a pod, installed as KubeRay's own manifests do it."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.apply(*_manifests(cluster, image), namespace=NAMESPACE)


def _manifests(cluster: Cluster, image: str) -> Iterator[dict[str, Any]]:
    for part in ("rbac", "manager"):
        folder: Path = kuberay() / "config" / part
        for document in yaml.safe_load_all(cluster.kubectl("kustomize", str(folder))):
            for subject in document.get("subjects", []):
                subject["namespace"] = NAMESPACE
            document["metadata"].pop("namespace", None)
            if document["kind"] == "Deployment":
                pod = document["spec"]["template"]["spec"]
                pod["tolerations"] = [{"operator": "Exists"}]
                (container,) = pod["containers"]
                container |= {"image": image, "imagePullPolicy": "Never", "command": [f"/{NAME}"]}
                del container["resources"]["limits"]["cpu"]  # a busy machine would have it restarted
            yield document
