"""KubeRay's operator, of the version that go.mod names: its CRDs, and itself beside the cluster or in a pod of it."""

from __future__ import annotations

from tests.cluster.bed.build import KUBERAY, built
from tests.cluster.bed.client import Cluster
from tests.cluster.bed.control import ControlPlane
from tests.cluster.bed.programs import Programs
from tests.tools import kuberay

NAMESPACE = "kuberay-system"


def define(cluster: Cluster) -> None:
    """Add KubeRay's CRDs, which are too large for an apply on the client's side."""
    bases = kuberay() / "config" / "crd" / "bases"
    cluster.kubectl("apply", "--server-side", f"--filename={bases}", within_s=120)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "--filename", str(bases), within_s=90)


def run_beside(programs: Programs, control: ControlPlane) -> None:
    """Run the operator as a program outside of the cluster: no node is needed."""
    config = control.authority.kubeconfig("kuberay-operator", "/O=system:masters/CN=kuberay-operator", control.server)
    closed = ["-metrics-addr=0", "-health-probe-bind-address=0", "-enable-leader-election=false"]
    programs.start("kuberay-operator", [built(KUBERAY) / "kuberay-operator", f"-kubeconfig={config}", *closed])
