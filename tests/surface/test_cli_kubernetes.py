"""`fleet policy render` and `fleet audit` from outside: what they print where, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from fleet_app.cli.main import app
from tests import manifests

CLUSTERS = Path(__file__).parents[2] / "clusters"
DEMO = str(CLUSTERS / "demo.yaml")

BUDGET = manifests.budget(manifests.of(manifests.TRAINING))
SCALER = manifests.scaler("Job")
BAD = yaml.safe_dump_all([BUDGET, SCALER])
GOOD = yaml.safe_dump_all([manifests.job(), manifests.budget(manifests.of(manifests.SERVING))])


def fleet(*arguments: str, stdin: str = "") -> Result:
    """Run a command as on a wide terminal."""
    environment = {"FLEET_HOME": None, "KUBECONFIG": "/nonexistent", "COLUMNS": "160", "TERM": "dumb"}
    return CliRunner().invoke(app, list(arguments), input=stdin, env=environment, prog_name="fleet")


def test_rendering_prints_what_kubectl_applies_and_nothing_else():
    done = fleet("policy", "render", DEMO)
    assert (done.exit_code, done.stderr) == (0, "")
    kinds = [each["kind"] for each in yaml.safe_load_all(done.stdout)]
    assert {"PriorityClass", "ValidatingAdmissionPolicyBinding", "NetworkPolicy", "PrometheusRule"} < set(kinds)
    assert "ClusterQueue" not in kinds


def test_parts_of_it_by_name_for_another_place():
    done = fleet("policy", "render", DEMO, "--only", "kueue, priorityclasses", "-n", "ml", "--cluster", "prod")
    found = list(yaml.safe_load_all(done.stdout))
    assert {each["kind"] for each in found} == {
        *("PriorityClass", "Topology", "ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue"),
    }
    assert {each["metadata"]["labels"]["fleet/cluster"] for each in found} == {"prod"}
    assert {each["metadata"].get("namespace") for each in found if each["kind"] == "LocalQueue"} == {"ml"}


def test_as_json_it_is_a_list():
    done = fleet("policy", "render", DEMO, "--only", "priorityclasses", "--json")
    found = json.loads(done.stdout)
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    assert [each["kind"] for each in found["items"]] == ["PriorityClass"] * 4


WRONG = {
    "a part that there is not": (["policy", "render", DEMO, "--only", "alarms"], "--only: 'alarms' is no part"),
    "a namespace that is none": (["policy", "render", DEMO, "-n", "A_b"], "--namespace: 'A_b'"),
    "a policy that is not there": (["policy", "render", "no.yaml"], "no.yaml: cannot be read"),
    "a manifest that is not there": (["audit", "no.yaml"], "no.yaml: cannot be read"),
    "a cluster that is not known": (["audit"], "no cluster is known"),
    "a kubeconfig that is not there": (["audit", "--kubeconfig", "no.kube"], "no.kube: no cluster is known"),
}


@pytest.mark.parametrize(("command", "want"), WRONG.values(), ids=WRONG)
def test_what_the_caller_can_put_right_is_said_with_exit_code_2(command, want):
    done = fleet(*command)
    assert (done.exit_code, done.stdout) == (2, "")
    assert want in done.stderr


def test_findings_are_a_table_with_what_to_do_beside_it_and_exit_code_1():
    done = fleet("audit", "-", stdin=BAD)
    assert done.exit_code == 1
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["RULE", "KIND", "NAMESPACE", "NAME", "FOUND", "IN"],
        ["K1", "PodDisruptionBudget", "fleet", "budget", "stdin:1"],
        ["K2", "HorizontalPodAutoscaler", "fleet", "scaler", "stdin:12"],
    ]
    assert "PodDisruptionBudget budget selects pods of gangs. Delete it" in done.stderr
    assert done.stderr.endswith("2 findings in 2 objects\n")


def test_what_somebody_copied_from_a_service_to_a_training_job_is_found_and_nothing_else():
    done = fleet("audit", "-", "--json", stdin=(CLUSTERS / "kubernetes/copied-from-a-service.yaml").read_text())
    found = json.loads(done.stdout)["findings"]
    assert done.exit_code == 1
    assert [(each["rule"], each["kind"], each["namespace"], each["name"]) for each in found] == [
        ("K1", "PodDisruptionBudget", "research", "trainer"),
        ("K2", "HorizontalPodAutoscaler", "research", "trainer"),
    ]
    assert "scales Job trainer and may change the size of a gang" in found[1]["message"]


def test_nothing_found_is_exit_code_0_and_says_how_much_was_looked_at():
    done = fleet("audit", "-", stdin=GOOD)
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no findings in 2 objects\n")


def test_bad_input_is_exit_code_2_with_its_line():
    done = fleet("audit", "-", stdin=GOOD + "---\nnot an object\n")
    assert done.exit_code == 2
    assert "is no Kubernetes object" in done.stderr


def test_as_json():
    done = fleet("audit", "-", "--json", stdin=BAD)
    found = json.loads(done.stdout)
    assert (done.exit_code, found["looked_at"]) == (1, 2)
    assert [(each["rule"], each["name"], each["line"]) for each in found["findings"]] == [
        ("K1", "budget", 1),
        ("K2", "scaler", 12),
    ]


def test_sarif_goes_to_a_file_beside_the_table_or_to_stdout_in_its_place(tmp_path):
    there = fleet("audit", "-", "--sarif", str(tmp_path / "out.sarif"), stdin=BAD)
    here = fleet("audit", "-", "--sarif", "-", stdin=BAD)
    assert there.stdout.startswith("RULE")
    assert (there.exit_code, here.exit_code) == (1, 1)
    assert json.loads(here.stdout) == json.loads((tmp_path / "out.sarif").read_text())
    assert [each["ruleId"] for each in json.loads(here.stdout)["runs"][0]["results"]] == ["K1", "K2"]


def test_the_policy_that_is_given_counts(tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(Path(DEMO).read_text() + "\nkubernetes: {budgets: blocking}\n")
    blocking = yaml.safe_dump(manifests.budget({}, maxUnavailable=0))
    assert fleet("audit", "-", stdin=blocking).exit_code == 1
    assert fleet("audit", "-", "--policy", str(policy), stdin=blocking).exit_code == 0


def test_where_none_is_given_the_policy_that_came_with_the_fleet_counts():
    own = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "prod-policy", "namespace": "fleet"},
        "data": {"fleet.yaml": Path(DEMO).read_text() + "\nkubernetes: {budgets: blocking}\n"},
    }
    fleet_of_it = manifests.ray_cluster(manifests.group(), name="prod")
    both = [fleet_of_it, manifests.budget({}, maxUnavailable=0)]
    assert fleet("audit", "-", stdin=yaml.safe_dump_all(both)).exit_code == 1
    assert fleet("audit", "-", stdin=yaml.safe_dump_all([*both, own])).exit_code == 0


def test_what_is_rendered_has_no_findings():
    rendered = fleet("policy", "render", DEMO).stdout
    assert fleet("audit", "-", stdin=rendered).exit_code == 0
