"""The control plane: etcd, API server, controller manager and scheduler, all of the real programs. Knows no nodes."""

from __future__ import annotations

import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.bed.build import ETCD, KUBERNETES, built
from tests.cluster.bed.pki import Authority, Pair
from tests.cluster.bed.programs import Programs

READY_WITHIN_S = 120
SERVICES = "10.96.0.0/16"
SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The addresses of the API server: for its own programs, for tests, and for pods where there are any."""

    inner: str = "127.0.0.1"
    outer: str = "127.0.0.1"
    published: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A control plane that answers. Nodes of it ask for certificates here."""

    authority: Authority
    server: str
    kubeconfig: Path


def start(programs: Programs, folder: Path, reach: Reach) -> ControlPlane:
    """Start the four programs and wait until the API server is ready."""
    authority = Authority(folder / "pki")
    etcd_port, peer_port, port, manager_port, scheduler_port = _free_ports(5)
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    programs.start("etcd", _etcd(folder, etcd_url, f"http://127.0.0.1:{peer_port}"))
    binaries = built(KUBERNETES)
    accounts = authority.sign("service-accounts", "/CN=service-accounts")
    programs.start(
        "kube-apiserver",
        [
            binaries / "kube-apiserver",
            *_apiserver(authority, accounts, reach),
            f"--secure-port={port}",
            f"--etcd-servers={etcd_url}",
        ],
    )
    programs.wait_until(
        lambda: _answers(f"https://{reach.outer}:{port}/readyz"),
        "the API server to be ready",
        READY_WITHIN_S,
        needs=("etcd", "kube-apiserver"),
    )
    server = f"https://{reach.inner}:{port}"
    for name, own_port, more in (
        ("kube-controller-manager", manager_port, _controller_manager(authority, accounts)),
        ("kube-scheduler", scheduler_port, []),
    ):
        config = authority.kubeconfig(name, f"/CN=system:{name}", server)
        files = [f"--{use}kubeconfig={config}" for use in ("", "authentication-", "authorization-")]
        own = ["--bind-address=127.0.0.1", f"--secure-port={own_port}", "--leader-elect=false"]
        programs.start(name, [binaries / name, *files, *own, *more])
    admin = authority.kubeconfig("admin", "/O=system:masters/CN=admin", f"https://{reach.outer}:{port}")
    return ControlPlane(authority=authority, server=server, kubeconfig=admin)


def _etcd(folder: Path, url: str, peer_url: str) -> list[str | Path]:
    """Nothing here outlives the run: nothing waits for the disk."""
    clients = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    peers = [
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=default={peer_url}",
    ]
    return [built(ETCD) / "etcd", f"--data-dir={folder / 'etcd'}", *clients, *peers, "--unsafe-no-fsync"]


def _apiserver(authority: Authority, accounts: Pair, reach: Reach) -> list[str]:
    hosts = sorted({reach.inner, reach.outer, "127.0.0.1", "10.96.0.1"})
    names = [*(f"IP:{host}" for host in hosts), *(f"DNS:{name}" for name in SERVICE_NAMES)]
    serving = authority.sign("kube-apiserver", "/CN=kube-apiserver", names)
    client = authority.sign("kube-apiserver-client", "/O=system:masters/CN=kube-apiserver-client")
    # The loopback is no address for an endpoint: where nobody looks for one, none is published.
    published = [f"--advertise-address={reach.published}"] if reach.published else ["--endpoint-reconciler-type=none"]
    return [
        *published,
        f"--bind-address={'0.0.0.0' if reach.published else '127.0.0.1'}",
        f"--service-cluster-ip-range={SERVICES}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.own.certificate}",
        f"--service-account-key-file={accounts.certificate}",
        f"--service-account-signing-key-file={accounts.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={client.certificate}",
        f"--kubelet-client-key={client.key}",
        f"--kubelet-certificate-authority={authority.own.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def _controller_manager(authority: Authority, accounts: Pair) -> list[str]:
    return [
        f"--service-account-private-key-file={accounts.key}",
        f"--root-ca-file={authority.own.certificate}",
        "--use-service-account-credentials=true",
    ]


def _answers(url: str) -> bool:
    """Ask anonymously, which `/readyz` allows; who answers is not in question yet."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _free_ports(count: int) -> Sequence[int]:
    """Return ports that nobody listens on now; the programs take them within moments."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
