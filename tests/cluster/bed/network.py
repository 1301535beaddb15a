"""A bed's own network: a world of namespaces with a bridge between nodes, and one link to it from this machine.

Everything but the link's end here lies in namespaces that go when the bed's keeper does, and that end goes with them.
Pods are behind their nodes' addresses by plain routes. Does not know what talks.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.cluster.bed.programs import BedError, Programs

# Everything in its own process, mount and network namespace; the keeper is the first process of them.
WORLD = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private")
# Of the range for tests of networks (RFC 2544), which nobody routes; one link of four addresses a bed.
LINKS = [(f"198.18.0.{first + 1}", f"198.18.0.{first + 2}") for first in range(0, 256, 4)]
GATEWAY = "10.88.0.1"
# The kubelet sets these for the whole machine unless it finds them as it likes: here it finds files that say so.
LIKED = {"vm/overcommit_memory": "1", "kernel/panic": "10", "kernel/panic_on_oops": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node is: its name, its address and its pods', and what a command is run under to be in it."""

    name: str
    address: str
    pods: str
    inside: Sequence[str]


@contextlib.contextmanager
def link(programs: Programs) -> Iterator[str]:
    """Link this machine with the world, by the first free addresses; yield the world's address on the link.

    The link would go with the world, but a connection that nobody closed keeps a dead world for a minute or two.
    """
    _ip(programs, "link set lo up")
    name, here, there = _plug(first(programs))
    try:
        for words in (("addr", "add", f"{here}/30", "dev", name), ("link", "set", name, "up")):
            if (problem := _host(*words)) is not None:
                raise BedError(f"ip {' '.join(words)}: {problem}")
        _ip(programs, f"addr add {there}/30 dev outside", "link set outside up")
        yield there
    finally:
        _host("link", "del", name)


def first(programs: Programs) -> int:
    """Return the process id of the world's first process, as this machine counts. It has to have answered before."""
    (keeper,) = psutil.Process(programs.pid).children()
    return int(keeper.pid)


def _plug(pid: int) -> tuple[str, str, str]:
    """Return the name and addresses of a new link into a process's network. Its name being free is the lock."""
    for number, (here, there) in enumerate(LINKS):
        name = f"fleetbed{number}"
        problem = _host("link", "add", name, "type", "veth", "peer", "name", "outside", "netns", str(pid))
        if problem is None:
            return name, here, there
        if "File exists" not in problem:
            raise BedError(f"cannot link a network namespace: {problem}")
    raise BedError("every link that a bed may have is taken: see `ip link`")


def lay(programs: Programs) -> None:
    """Make the world fit for nodes: a bridge, and what kubelets want of the kernel."""
    _ip(programs, "link add nodes type bridge", f"addr add {GATEWAY}/24 dev nodes", "link set nodes up")
    steps = ["mount -t tmpfs tmpfs /run", "echo 1 > /proc/sys/net/ipv4/ip_forward"]
    for key, value in LIKED.items():
        file = f"/run/{key.replace('/', '.')}"
        steps += [f"echo {value} > {file}", f"mount --bind {file} /proc/sys/{key}"]
    programs.run(["sh", "-ec", "\n".join(steps)])


def place(programs: Programs, folder: Path, number: int) -> Place:
    """Make the namespaces of a node, with /run, /var/lib and /var/log of its own, and plug it in."""
    name, address, pods = f"n{number}", f"10.88.0.1{number}", f"10.244.{number}"
    (folder / name).mkdir()
    log = programs.logs / f"{name}-var-log"
    log.mkdir()
    steps = [
        "mount --make-rshared /",  # volumes of pods are to be seen in their containers
        "mount -t tmpfs tmpfs /var/lib",  # images: hundreds of thousands of files, on a disk a minute to remove
        f"mount --bind {log} /var/log",
        "mount -t tmpfs tmpfs /run",
        f"hostname {name}",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "echo made",
        "exec sleep infinity",
    ]
    namespaces = ["unshare", "--mount", "--net", "--uts", "--propagation", "private"]
    holder = programs.start(name, [*namespaces, "sh", "-ec", "\n".join(steps)])
    programs.wait_until(lambda: programs.said(name) == "made", f"namespaces of {name}", 30, needs=(name,))
    inside = ("nsenter", f"--target={holder}", "--mount", "--net", "--uts", "--")
    _ip(programs, f"link add {name} type veth peer name eth0 netns {holder}", f"link set {name} master nodes up")
    _ip(programs, "link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up", inside=inside)
    _ip(programs, f"route add default via {GATEWAY}", inside=inside)
    _ip(programs, f"route add {pods}.0/24 via {address}")
    return Place(name=name, address=address, pods=f"{pods}.0/24", inside=inside)


def _ip(programs: Programs, *lines: str, inside: Sequence[str] = ()) -> None:
    for line in lines:
        programs.run(["ip", *line.split()], inside)


def _host(*words: str) -> str | None:
    """Run ip on this machine; return what it complains of."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode == 0 else done.stderr.strip()
