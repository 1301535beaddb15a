"""`fleet simulate` from outside, on hours of a small scenario."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surface.test_cli import CLUSTERS, fleet

SMALL = f"""
version: 1
name: small
policy: {CLUSTERS / "small.yaml"}
fleet: {{serving: 1, training: 1, per_domain: [2, 1]}}
lasts: 1d
demand:
  - name: chat
    team: serving
    gpus: 2
    gpus_over_time: {{source: day, peak: 8, trough: 2, low: [{{since: 2h, until: 8h}}], every: 1h}}
work:
  - name: lent
    team: batch
    kind: backfill
    priority: training-backfill
    shapes: [{{gpus: 2}}]
    arrives: {{source: random, a_day: 100, runs: {{median: 3h}}}}
    manners: {{leaves: {{median: 5s}}}}
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return str(path)


def test_a_run_is_tables_and_a_page(small: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = fleet("simulate", small, "--until", "12h", "--set", "headroom.immediate=0", "--html", str(page))
    assert result.exit_code == 0, result.output
    assert "idle if nothing were lent" in result.stdout
    assert "events and" in result.stderr
    assert page.read_text().startswith("<!doctype html>")


def test_a_run_is_json(small: str) -> None:
    result = fleet("simulate", small, "--until", "12h", "--set", "headroom.immediate=0", "--json")
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)["figures"]
    assert figures["lasted_s"] == 12 * 3600
    assert figures["money"]["lent"] > 0
    assert len(figures["moments"]) == 12


def test_two_policies_are_compared(small: str, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text((CLUSTERS / "small.yaml").read_text().replace("immediate: 2", "immediate: 0"))
    result = fleet("simulate", small, "--until", "12h", "--against", str(other), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert list(found["runs"]) == ["small", "other"]
    ready = next(row for row in found["compared"] if row["what"] == "kept ready")
    assert ready["after"] < ready["before"]


def test_two_scenarios_are_compared(small: str, tmp_path: Path) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(SMALL.replace("a_day: 100", "a_day: 20"))
    result = fleet("simulate", small, "--until", "6h", "--against", str(more), "--set", "headroom.immediate=0")
    assert result.exit_code == 0, result.output
    assert "borrowed" in result.stdout
    assert "batch" in result.stdout


def test_a_sweep_is_a_column_a_value(small: str, tmp_path: Path) -> None:
    page = tmp_path / "sweep.html"
    asked = ("--sweep", "headroom.immediate=0,2", "--html", str(page))
    result = fleet("simulate", small, "--until", "6h", *asked)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0].split() == ["headroom.immediate", "0", "2"]
    assert "Money against late requests" in page.read_text()


def test_a_run_that_is_kept_comes_to_the_same_and_leaves_no_file(small: str, tmp_path: Path) -> None:
    asked = ("simulate", small, "--until", "12h", "--json")
    plain, kept = fleet(*asked), fleet(*asked, "--keep", str(tmp_path / "kept"))
    assert (kept.exit_code, kept.stdout) == (0, plain.stdout)
    assert not (tmp_path / "kept").exists()


WRONG = {
    "a sweep without values": (("--sweep", "headroom.immediate"), "is no key with values"),
    "a value without a key": (("--set", "3"), "is no key with a value"),
    "both at once": (("--sweep", "a=1", "--against", "x"), "compares two runs"),
    "several runs in one file": (("--keep", "x", "--sweep", "a=1"), "keeps one run"),
    "no duration": (("--until", "12"), "is no duration"),
    "a key that no policy has": (("--set", "headroom.imediate=3"), "is not a known key"),
}


@pytest.mark.parametrize(("asked", "want"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_is_said(small: str, asked: tuple[str, ...], want: str) -> None:
    result = fleet("simulate", small, *asked)
    assert result.exit_code == 2
    assert want in result.stderr
