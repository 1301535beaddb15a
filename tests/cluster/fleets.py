"""A fleet that Helm installed in a cluster, asked as its users ask it: by `fleet`, by `ray job submit`, over HTTP.

Commands run in the head's pod, beside the gateway: that needs no road from here to the cluster's services. Does not
know how the cluster was made.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.bed.client import Cluster, CommandError

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "fleet"
# Upper bounds: a command of ours is a Python process in a pod, on a machine that may do much else.
ANSWER_WITHIN_S = 180
GONE_WITHIN_S = 300
# Counts steps until it is asked to leave. Where it counted to is all that it has to save.
JOB = """
import sys, time
import ray
ray.init(log_to_driver=False)
from fleet_app.worker.drain import acknowledge, drain_requested, install_signal_handler
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat
install_signal_handler()
takes_s = float(sys.argv[1])
member = Membership.from_environment()
point = member.resume_point()
step = point.step if point else 0
print(f"starts at {step}", flush=True)
while drain_requested() is None:
    step += 1
    heartbeat(step)
    time.sleep(0.1)
print(f"saves {step}", flush=True)
time.sleep(takes_s)
acknowledge("memory://steps", step)
print(f"leaves at {step}", flush=True)
"""
ASK = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())
"""
# Requests that overlap, so many at any moment, until its input ends. A line an answer: its code, or what went wrong.
LOAD = """
import os, sys, threading, urllib.request
def say(line):
    os.write(1, f"{line}\\n".encode())  # whole, whoever else writes
def ask():
    while True:
        try:
            with urllib.request.urlopen(sys.argv[1], timeout=60) as answer:
                say(str(answer.status))
        except Exception as error:
            say(f"failed: {error}")
for _ in range(int(sys.argv[2])):
    threading.Thread(target=ask).start()
sys.stdin.read()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A release of the chart in a namespace."""

    cluster: Cluster
    namespace: str
    name: str

    def kubectl(self, *words: str, stdin: str = "", within_s: float = ANSWER_WITHIN_S) -> str:
        """Run kubectl in the fleet's namespace."""
        return self.cluster.kubectl("--namespace", self.namespace, *words, stdin=stdin, within_s=within_s)

    def pods(self, selector: str = "") -> list[dict[str, Any]]:
        """Return the pods of the fleet that are not on their way out."""
        found = json.loads(self.kubectl("get", "pods", "--output=json", f"--selector={selector}"))["items"]
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def head(self) -> str:
        """Return the name of the head's pod. Raises LookupError while there is none."""
        return str(self.pods(f"ray.io/cluster={self.name},ray.io/node-type=head")[0]["metadata"]["name"])

    def run(self, *words: str, stdin: str = "", within_s: float = ANSWER_WITHIN_S) -> str:
        """Run a command beside the gateway and return what it says. Raises CommandError with what it complains of."""
        return self.kubectl(
            "exec", "--stdin", self.head(), "--container=attend", "--", *words, stdin=stdin, within_s=within_s
        )

    def ask(self, *words: str) -> Any:
        """Return what a command of `fleet` says, as JSON."""
        return json.loads(self.run("fleet", *words, "--json"))

    def workload(self, name: str) -> Mapping[str, Any]:
        """Return a workload as `fleet queue` shows it. Raises LookupError when there is none."""
        return {each["name"]: each for each in self.ask("queue", "--all")}[name]

    def submit(self, name: str, about: Mapping[str, str], takes_s: float = 0) -> None:
        """Submit a job that holds its nodes until it is asked to leave, as users of Ray do."""
        self.run("sh", "-c", "mkdir -p /tmp/job && cat > /tmp/job/hold.py", stdin=JOB)
        token = self.run("cat", "/etc/fleet/token/token")
        self.run(
            *("ray", "job", "submit", "--no-wait", f"--address=http://{self.name}-gateway:8090"),
            *("--headers", json.dumps({"Authorization": f"Bearer {token}"}), "--working-dir=/tmp/job"),
            *("--submission-id", name, "--metadata-json", json.dumps(about), "--", "python3", "hold.py", str(takes_s)),
        )

    def url(self, seconds: float = 0) -> str:
        """Return where the service is asked, by the name of its Service."""
        return f"http://{self.name}-serve.{self.namespace}.svc.cluster.local:8000/hello?seconds={seconds}"

    def hello(self) -> dict[str, Any]:
        """Ask the service once."""
        answer: dict[str, Any] = json.loads(self.run("python3", "-c", ASK, self.url()))
        return answer

    @contextlib.contextmanager
    def load(
        self, answers: Path, at_once: int, seconds: float = 1, where: str = "ray.io/node-type=worker"
    ) -> Iterator[None]:
        """Keep the service busy from one of some pods, meanwhile; every answer becomes a line of a file."""
        pod = self.pods(where)[0]["metadata"]["name"]
        command = ("exec", "--stdin", pod, "--container=ray-worker", "--", "python3", "-c", LOAD, self.url(seconds))
        with (
            answers.open("w") as out,
            self.cluster.background("--namespace", self.namespace, *command, str(at_once), stdout=out),
        ):
            yield

    def upgrade(self, values: Mapping[str, Any], folder: Path) -> None:
        """Install the chart, or upgrade what was installed."""
        file = folder / f"{self.name}.yaml"
        file.write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
        where = ("--namespace", self.namespace, "--values", str(file))
        self.cluster.helm("upgrade", "--install", "--force-conflicts", self.name, str(CHART), *where)


@contextlib.contextmanager
def namespace(cluster: Cluster, name: str) -> Iterator[str]:
    """Hold a namespace in which every pod has to be of the restricted Pod Security Standard."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": label}})
    try:
        yield name
    finally:
        _end(cluster, name)


def _end(cluster: Cluster, name: str) -> None:
    """End a namespace at once, whatever state it is in: no graces, and nothing that waits for a Redis that is gone."""
    where = ("--namespace", name)
    clusters = cluster.kubectl("get", "rayclusters", "--output=name", *where).split()
    if clusters:
        cluster.kubectl("delete", *clusters, "--wait=false", *where)
        for each in clusters:
            with contextlib.suppress(CommandError):  # gone by itself
                cluster.kubectl("patch", each, "--type=merge", '--patch={"metadata": {"finalizers": null}}', *where)
    cluster.kubectl("delete", "namespace", name, "--wait=false")
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", *where)
    cluster.kubectl("wait", "--for=delete", f"namespace/{name}", f"--timeout={GONE_WITHIN_S}s", within_s=GONE_WITHIN_S)
