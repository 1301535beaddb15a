"""What the chart makes keeps the rules that `fleet audit` and admission hold everybody to, and takes them in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from fleet_app.cli.main import app
from tests.chart.conftest import CHART, NAMESPACE, RELEASE
from tests.chart.examples import ALL, EXAMPLES
from tests.chart.test_chart import check_core


def fleet(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("options", ALL.values(), ids=ALL)
def test_the_audit_finds_nothing_in_the_chart(render, options, tmp_path: Path):
    objects = render(*options)
    manifests, policy = tmp_path / "all.yaml", tmp_path / "fleet.yaml"
    manifests.write_text(yaml.dump_all(objects))
    (config,) = (each for each in objects if each["metadata"]["name"] == f"{RELEASE}-policy")
    policy.write_text(config["data"]["fleet.yaml"])
    said = json.loads(fleet("audit", str(manifests), "--policy", str(policy), "-n", NAMESPACE, "--json"))
    assert said["findings"] == []
    assert said["looked_at"] == len(objects)


def test_an_audit_of_the_chart_would_find_something(render, tmp_path: Path):
    manifests = tmp_path / "all.yaml"
    manifests.write_text(yaml.dump_all(render()).replace("safe-to-evict: 'false'", "safe-to-evict: 'true'"))
    done = CliRunner().invoke(app, ["audit", str(manifests), "-n", NAMESPACE])
    assert done.exit_code == 1
    assert "K5" in done.stdout


def test_an_audit_of_a_chart_that_brings_a_service_s_objects_to_a_job_finds_those_two(helm):
    """`helm template ... | fleet audit -`."""
    copied = "rendered=clusters/kubernetes/copied-from-a-service.yaml"
    text = helm("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--set-file", copied)
    done = CliRunner().invoke(app, ["audit", "-", "--json", "-n", NAMESPACE], input=text)
    assert done.exit_code == 1
    found = [(each["rule"], each["kind"], each["name"]) for each in json.loads(done.stdout)["findings"]]
    assert found == [("K1", "PodDisruptionBudget", "trainer"), ("K2", "HorizontalPodAutoscaler", "trainer")]


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_rendered_from_the_policy_goes_along_with_the_release(render, name, tmp_path: Path):
    """As NOTES.txt says it: the parts that the chart does not make itself."""
    policy, rendered = tmp_path / "fleet.yaml", tmp_path / "rendered.yaml"
    (config,) = (each for each in render(*EXAMPLES[name]) if each["metadata"]["name"] == f"{RELEASE}-policy")
    policy.write_text(config["data"]["fleet.yaml"])
    where = ("--cluster", RELEASE, "--namespace", NAMESPACE)
    rendered.write_text(fleet("policy", "render", str(policy), *where, "--only", "admission,alerts"))
    objects = render(*EXAMPLES[name], "--set-file", f"rendered={rendered}")
    made = [each for each in objects if each["kind"].startswith("ValidatingAdmissionPolicy")]
    assert len(made) >= 2
    for each in made:
        check_core(json.dumps(each, sort_keys=True))
    names = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))
    assert ("PrometheusRule", f"{RELEASE}-fleet") in names


def test_notes_say_how_to_render_what_the_chart_does_not_make():
    notes = (CHART / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    assert "fleet policy render fleet.yaml" in notes
    assert "--only admission,alerts" in notes
