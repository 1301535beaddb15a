"""However often the batch job is interrupted, its results hold every item exactly once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs import batch_inference
from jobs.batch_inference import Progress, Results


def items(folder: Path) -> list[int]:
    return [json.loads(line)["item"] for line in (folder / "results.jsonl").read_text().splitlines()]


def test_answers_are_numbered_and_counted(tmp_path: Path) -> None:
    results = Results(tmp_path, tmp_path / "a", Progress())
    results.append(["x", "y"])
    results.append(["z"])
    assert items(tmp_path) == [0, 1, 2]
    assert batch_inference.load(results.checkpoint()) == results.progress
    assert results.progress == Progress(next_item=3, size=(tmp_path / "results.jsonl").stat().st_size)


def test_what_came_after_the_checkpoint_is_done_again_and_stands_there_once(tmp_path: Path) -> None:
    first = Results(tmp_path, tmp_path / "a", Progress())
    first.append(["x", "y"])
    checkpoint = first.checkpoint()
    first.append(["never acknowledged"])
    second = Results(tmp_path, tmp_path / "a.2", batch_inference.load(checkpoint))
    second.append(["z"])
    assert items(tmp_path) == [0, 1, 2]
    assert "never" not in (tmp_path / "results.jsonl").read_text()


def test_half_a_line_of_a_killed_attempt_is_cut_off(tmp_path: Path) -> None:
    first = Results(tmp_path, tmp_path / "a", Progress())
    first.append(["x"])
    progress = first.progress
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"item": 1, "ans')
    Results(tmp_path, tmp_path / "a.2", progress).append(["y"])
    assert items(tmp_path) == [0, 1]


def test_an_attempt_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    Results(tmp_path, tmp_path / "a", Progress()).append(["x"])
    Results(tmp_path, tmp_path / "a.2", Progress()).append(["y"])
    assert items(tmp_path) == [0]


def test_results_that_lost_what_was_acknowledged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="shorter"):
        Results(tmp_path, tmp_path / "a", Progress(next_item=3, size=99))


def test_old_checkpoints_go(tmp_path: Path) -> None:
    results = Results(tmp_path, tmp_path / "a", Progress())
    for _ in range(5):
        results.append(["x"])
        results.checkpoint()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == [f"progress-{n:08d}.json" for n in (3, 4, 5)]


def test_arithmetic_depends_on_every_character() -> None:
    answers = {batch_inference.arithmetic(batch_inference.prompt(item)) for item in range(200)}
    assert len(answers) == 200
