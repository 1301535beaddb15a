"""The two tiers of the test bed, each up for as long as a `with` lasts, beside any other on this machine.

`api`: a control plane and KubeRay's operator on the loopback; nothing that it makes runs. Needs Go, but not root.
`full`: three nodes as well, of both classes of work, with DNS, the operator in a pod, and images loaded. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.cluster import image
from tests.cluster.bed import archives, cgroups, control, dns, network, node, operator, storage
from tests.cluster.bed.build import COREDNS, KUBERAY, KUBERNETES, built
from tests.cluster.bed.client import Cluster
from tests.cluster.bed.folder import run_folder
from tests.cluster.bed.programs import Programs
from tests.tools import UnavailableError

PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    f"{node.CNI}/ptp": "containernetworking-plugins",
    "unshare": "util-linux",
    "ip": "iproute2",
}
# As few as there are stories of: a gang of two, and a node that goes over. Topology as a site would label it.
NODES: Mapping[str, Mapping[str, str]] = {
    "n1": {"fleet/class": "serving", "fleet/spine": "s1", "fleet/leaf": "l1"},
    "n2": {"fleet/class": "training", "fleet/spine": "s1", "fleet/leaf": "l2"},
    "n3": {"fleet/class": "training", "fleet/spine": "s1", "fleet/leaf": "l2"},
}
GPUS = "8"
READY_WITHIN_S = 300


@contextlib.contextmanager
def api() -> Iterator[Cluster]:
    """Hold a control plane with the operator, and no nodes."""
    with run_folder() as folder, _running(folder) as programs:
        plane = control.start(programs, folder, control.Reach())
        cluster = Cluster(kubeconfig=plane.kubeconfig)
        operator.define(cluster)
        operator.run_beside(programs, plane)
        yield cluster


@contextlib.contextmanager
def full() -> Iterator[Cluster]:
    """Hold a whole cluster of three nodes, whose pods run."""
    _need()
    with run_folder() as folder:
        images = archives.all_of_them()
        with _running(folder, network.WORLD) as programs, network.link(programs) as address:
            cgroups.enter(folder.name, network.first(programs))
            network.lay(programs)
            reach = control.Reach(inner=network.GATEWAY, outer=address, published=network.GATEWAY)
            places = [network.place(programs, folder, number) for number in range(1, len(NODES) + 1)]
            for place in places:
                node.run_containerd(programs, place, folder / place.name)
            plane = control.start(programs, folder, reach)
            cluster = Cluster(kubeconfig=plane.kubeconfig, image=image.NAME, next_image=node.next_of(image.NAME))
            node.load(programs, places, images, image.NAME)
            operator.define(cluster)
            for place in places:
                node.join(programs, place, folder / place.name, plane)
            _furnish(cluster, folder)
            yield cluster


def _furnish(cluster: Cluster, folder: Path) -> None:
    """Label and taint the nodes, pretend that they have GPUs, and install what every cluster has."""
    cluster.wait_until(lambda: len(cluster.get("nodes")["items"]) == len(NODES), "nodes to register", READY_WITHIN_S)
    gpus = {"nvidia.com/gpu": GPUS}
    patch = f'{{"status": {{"capacity": {gpus}, "allocatable": {gpus}}}}}'.replace("'", '"')
    for name, labels in NODES.items():
        cluster.kubectl("label", "node", name, *(f"{key}={value}" for key, value in labels.items()))
        cluster.kubectl("taint", "node", name, f"fleet/class={labels['fleet/class']}:NoSchedule")
        cluster.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={patch}")
    storage.provide(cluster, folder / "volumes")
    dns.run(cluster, archives.name(COREDNS))
    operator.run_inside(cluster, archives.name(KUBERAY))
    limit = f"--timeout={READY_WITHIN_S}s"
    cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", limit, within_s=READY_WITHIN_S + 5)
    for namespace, name in ((dns.NAMESPACE, dns.NAME), (operator.NAMESPACE, operator.NAME)):
        words = ("rollout", "status", f"deployment/{name}", f"--namespace={namespace}", limit)
        cluster.kubectl(*words, within_s=READY_WITHIN_S + 5)


def _need() -> None:
    """Raises UnavailableError with all that is missing."""
    if os.geteuid() != 0:
        raise UnavailableError("nodes need namespaces and control groups, and this is not root")
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if missing:
        raise UnavailableError(f"nodes need programs: apt-get install --no-install-recommends {' '.join(missing)}")
    built(KUBERNETES)


@contextlib.contextmanager
def _running(folder: Path, world: tuple[str, ...] = ()) -> Iterator[Programs]:
    programs = Programs(folder, world)
    try:
        yield programs
    finally:
        programs.close()
