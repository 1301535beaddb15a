"""A node of the cluster: containerd, kubelet and kube-proxy in its namespaces. Does not know what runs there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.bed import cgroups
from tests.cluster.bed.build import KUBERNETES, built
from tests.cluster.bed.control import ControlPlane
from tests.cluster.bed.network import Place
from tests.cluster.bed.programs import Programs

DNS = "10.96.0.10"
PODS = "10.244.0.0/16"
CONTAINERD = "/run/containerd/containerd.sock"
PAUSE = "localhost/pause:1"
CNI = "/usr/lib/cni"  # where Debian's package puts the plugins
IMPORT_WITHIN_S = 600


def run_containerd(programs: Programs, place: Place, folder: Path) -> None:
    """Start containerd and wait until it answers."""
    network = folder / "cni"
    network.mkdir()
    (network / "10-bed.conflist").write_text(json.dumps(_network(place)), encoding="utf-8")
    config = folder / "containerd.toml"
    # A process here may not lower the score by which the kernel picks whom to kill, and runc fails over it.
    config.write_text(
        f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI}"
conf_dir = "{network}"
""",
        encoding="utf-8",
    )
    name = f"{place.name}-containerd"
    programs.start(name, ["containerd", "--config", config], place.inside)
    socket = programs.launch(["sh", "-c", "until ctr version; do sleep 0.1; done"], place.inside)
    programs.wait_until(lambda: programs.ended(socket) == 0, f"{name} to answer", 60, needs=(name,))


def load(programs: Programs, places: Iterable[Place], archives: Iterable[Path], fleet: str) -> None:
    """Put images into the stores of nodes, side by side; the fleet's by a second name, too."""
    script = "\n".join(f"ctr -n k8s.io images import {archive}" for archive in archives)
    script += f"\nctr -n k8s.io images tag {fleet} {next_of(fleet)}"
    loads = [programs.launch(["sh", "-ec", script], place.inside) for place in places]
    for each in loads:
        programs.finish(each, IMPORT_WITHIN_S)


def next_of(image: str) -> str:
    """Return the second name of an image, which an upgrade takes for another."""
    return f"{image}-next"


def join(programs: Programs, place: Place, folder: Path, control: ControlPlane) -> None:
    """Start kubelet and kube-proxy."""
    group = cgroups.make(folder.parent.name, place.name)
    binaries = built(KUBERNETES)
    user = control.authority.kubeconfig(
        f"{place.name}-kubelet", f"/O=system:nodes/CN=system:node:{place.name}", control.server
    )
    kubelet = _written(folder / "kubelet.yaml", _kubelet(place, folder, control, group))
    programs.start(
        f"{place.name}-kubelet",
        [
            binaries / "kubelet",
            f"--config={kubelet}",
            f"--kubeconfig={user}",
            f"--hostname-override={place.name}",
            f"--node-ip={place.address}",
        ],
        place.inside,
    )
    user = control.authority.kubeconfig(f"{place.name}-proxy", "/CN=system:kube-proxy", control.server)
    proxy = _written(folder / "proxy.yaml", _proxy(place, user))
    programs.start(f"{place.name}-proxy", [binaries / "kube-proxy", f"--config={proxy}"], place.inside)


def _network(place: Place) -> dict[str, object]:
    """A link to each pod, and the node routes: no bridge, past which answers of services could slip."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": place.pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "0.4.0", "name": "bed", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}


def _kubelet(place: Place, folder: Path, control: ControlPlane, group: str) -> dict[str, object]:
    serving = control.authority.sign(
        f"{place.name}-serving", f"/O=system:nodes/CN=system:node:{place.name}", [f"IP:{place.address}"]
    )
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(control.authority.own.certificate)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": group,
        "failCgroupV1": False,
        "failSwapOn": False,
        "resolvConf": "",
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "volumePluginDir": str(folder / "plugins"),
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # what was loaded could not be fetched again
        "shutdownGracePeriod": "0s",
    }


def _proxy(place: Place, user: Path) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clusterCIDR": PODS,
        "hostnameOverride": place.name,
        "clientConnection": {"kubeconfig": str(user)},
        "conntrack": {"maxPerCore": 0, "min": 0},  # of the whole machine: not ours to set
    }


def _written(path: Path, document: dict[str, object]) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
