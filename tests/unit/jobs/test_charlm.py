"""The small language model learns, and an interruption changes nothing about it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the model needs the extra `demo`")
charlm = pytest.importorskip("jobs.charlm")

ROWS, WINDOW = 8, 24
UPDATE = jax.jit(charlm.update)


def trained(state: Any, steps: int) -> tuple[Any, list[float]]:
    """Return the state after `steps` more steps, and their losses."""
    losses = []
    for _ in range(steps):
        rows = charlm.batch(0, state.step, range(ROWS), WINDOW)
        params, optimizer, loss = UPDATE(state.params, state.optimizer, rows)
        state = charlm.State(params, optimizer, state.step + 1)
        losses.append(float(loss))
    return state, losses


def same(one: Any, other: Any) -> bool:
    """Return whether two states are equal bit for bit."""
    left, right = jax.tree.leaves(one), jax.tree.leaves(other)
    return len(left) == len(right) and all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))


def test_the_loss_falls() -> None:
    _, losses = trained(charlm.fresh(), 40)
    assert losses[0] == pytest.approx(np.log(len(charlm.ALPHABET)), rel=0.05)
    assert losses[-1] < losses[0] - 1


def test_a_checkpoint_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    state, _ = trained(charlm.fresh(), 3)
    charlm.save(tmp_path / "step-3", state, seed=0)
    assert same(charlm.load(tmp_path / "step-3"), state)


def test_a_resumed_run_equals_one_that_was_never_interrupted(tmp_path: Path) -> None:
    interrupted, _ = trained(charlm.fresh(), 5)
    charlm.save(tmp_path / "step-5", interrupted, seed=0)
    resumed, _ = trained(charlm.load(tmp_path / "step-5"), 5)
    straight, _ = trained(charlm.fresh(), 10)
    assert same(resumed, straight)


def test_ranks_that_average_learn_what_one_process_learns_from_all_rows() -> None:
    start, ranks = charlm.fresh(), 4
    rows = charlm.batch(0, 0, range(ROWS), WINDOW)
    update = partial(charlm.update, average=charlm.mean_over("ranks"))
    together = jax.jit(jax.vmap(update, in_axes=(None, None, 0), axis_name="ranks"))
    params, _, losses = together(start.params, start.optimizer, rows.reshape(ranks, ROWS // ranks, -1))
    alone, _, loss = UPDATE(start.params, start.optimizer, rows)
    assert np.allclose(losses, loss, rtol=1e-5)
    for mine, want in zip(jax.tree.leaves(params), jax.tree.leaves(alone), strict=True):
        assert np.allclose(mine, want[None], atol=1e-5)


def test_a_rank_makes_its_rows_without_the_others() -> None:
    whole = charlm.batch(7, 3, range(ROWS), WINDOW)
    parts = [charlm.batch(7, 3, rows, WINDOW) for rows in (range(3), range(3, ROWS))]
    assert np.array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(charlm.batch(7, 4, range(ROWS), WINDOW), whole)


def test_a_checkpoint_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    first, _ = trained(charlm.fresh(), 1)
    charlm.save(tmp_path / "it", first, seed=0)
    second, _ = trained(first, 1)
    charlm.save(tmp_path / "it", second, seed=0)
    assert charlm.load(tmp_path / "it").step == 2
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_the_newest_checkpoint_is_a_whole_one(tmp_path: Path) -> None:
    assert charlm.newest(tmp_path) is None
    for name, step in (("llm/step-9", 9), ("llm.2/step-10", 10), ("llm.2/.step-11.4711", 11)):
        charlm.save(tmp_path / name, charlm.fresh()._replace(step=step), seed=0)
    assert charlm.newest(tmp_path) == tmp_path / "llm.2" / "step-10"


def test_a_checkpoint_of_another_size_of_model_is_loaded_at_its_size(tmp_path: Path) -> None:
    small = charlm.fresh(shape=charlm.Shape(embedding=4, hidden=8))
    charlm.save(tmp_path / "small", small, seed=0)
    assert same(charlm.load(tmp_path / "small"), small)


def test_the_arrays_of_another_model_are_refused(tmp_path: Path) -> None:
    charlm.save(tmp_path / "it", charlm.fresh(), seed=0)
    with (tmp_path / "it" / "arrays.npz").open("wb") as file:
        np.savez(file, other=np.zeros(3))
    with pytest.raises(ValueError, match="another model"):
        charlm.load(tmp_path / "it")


def test_a_prompt_is_continued_the_same_in_any_company() -> None:
    state, _ = trained(charlm.fresh(), 20)
    writer = charlm.Writer(state.params, rows=4)
    alone = "".join(charlm.generate(state.params, "The bell", 12))
    company = list(writer.write(["The bell", "A much longer prompt than that", "x"], 12))
    assert "".join(characters[0] for characters in company) == alone


def test_what_the_alphabet_lacks_is_a_space() -> None:
    assert charlm.decode(charlm.encode("ein Märchen\t!")) == "ein M rchen !"
