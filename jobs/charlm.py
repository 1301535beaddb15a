"""A small character-level language model: one recurrent layer, about fifty thousand parameters, JAX and optax.

The model that the example gang trains, the example service serves and the example batch job runs. It is real (it
learns to write words) and light (a step takes milliseconds on one CPU core). Knows text, parameters and checkpoint
folders; does not know Ray or the fleet. Importing it imports JAX.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

ALPHABET = "\n" + "".join(chr(code) for code in range(32, 127))
"""Every character the model knows; any other is read as a space."""

CORPUS = Path(__file__).resolve().parent / "data" / "fleets.txt"
LEARNING_RATE = 3e-3

_CODES = {character: code for code, character in enumerate(ALPHABET)}
_SPACE = _CODES[" "]
_ARRAYS = "arrays.npz"
_META = "meta.json"

Tree = Any
"""A JAX pytree of arrays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the model; a checkpoint carries them."""

    embedding: int = 32
    hidden: int = 96


class State(NamedTuple):
    """All that training carries from step to step; `step` steps are done."""

    params: Tree
    optimizer: Tree
    step: int


def encode(text: str) -> NDArray[np.int32]:
    """Return the codes of a text."""
    return np.fromiter((_CODES.get(character, _SPACE) for character in text), np.int32, len(text))


def decode(codes: NDArray[np.integer[Any]]) -> str:
    """Return the text of codes."""
    return "".join(ALPHABET[int(code)] for code in codes)


@cache
def corpus() -> NDArray[np.int32]:
    """Return the codes of the text that the model learns from."""
    return encode(CORPUS.read_text(encoding="utf-8"))


def batch(seed: int, step: int, rows: range, window: int) -> NDArray[np.int32]:
    """Return rows of the global batch of a step: `window` + 1 codes each, inputs and targets one apart.

    A row depends on seed, step and its own number only. So each rank makes just its rows, and a run that was
    interrupted, or goes on with another number of ranks, sees the same data.
    """
    text = corpus()
    starts = [np.random.default_rng((seed, step, row)).integers(len(text) - window) for row in rows]
    return np.stack([text[start : start + window + 1] for start in starts])


def fresh(seed: int = 0, shape: Shape | None = None) -> State:
    """Return the state before the first step; the same seed gives the same parameters everywhere."""
    shape = shape or Shape()
    draw = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> jax.Array:
        return jnp.asarray(draw.normal(0, rows**-0.5, (rows, columns)), jnp.float32)

    params = {
        "embedding": matrix(len(ALPHABET), shape.embedding),
        "input": matrix(shape.embedding, 3 * shape.hidden),
        "recurrent": matrix(shape.hidden, 3 * shape.hidden),
        "bias": jnp.zeros(3 * shape.hidden),
        "output": matrix(shape.hidden, len(ALPHABET)),
    }
    return State(params, optimizer().init(params), 0)


def optimizer() -> optax.GradientTransformation:
    """Return the optimizer, which has no state of its own outside the training state."""
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(LEARNING_RATE))


def rest(params: Tree, rows: int) -> jax.Array:
    """Return the memory of a model that has read nothing, for a batch of `rows` texts."""
    return jnp.zeros((rows, params["recurrent"].shape[0]))


def read(params: Tree, memory: jax.Array, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Read one character of each text; return the memory after it and the logits of the next character.

    A gated recurrent unit (Cho et al. 2014).
    """
    from_input = params["embedding"][codes] @ params["input"] + params["bias"]
    from_memory = memory @ params["recurrent"]
    reset_in, update_in, new_in = jnp.split(from_input, 3, axis=-1)
    reset_mem, update_mem, new_mem = jnp.split(from_memory, 3, axis=-1)
    reset, update = jax.nn.sigmoid(reset_in + reset_mem), jax.nn.sigmoid(update_in + update_mem)
    memory = (1 - update) * jnp.tanh(new_in + reset * new_mem) + update * memory
    return memory, memory @ params["output"]


def loss(params: Tree, rows: jax.Array) -> jax.Array:
    """Return the mean cross-entropy, in nats a character, over rows as `batch` makes them."""
    _, logits = jax.lax.scan(partial(read, params), rest(params, rows.shape[0]), rows[:, :-1].T)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, rows[:, 1:].T))


def update(
    params: Tree, optimizer_state: Tree, rows: jax.Array, average: Callable[[Tree], Tree] = lambda tree: tree
) -> tuple[Tree, Tree, jax.Array]:
    """Return parameters and optimizer state after one step, and the loss before it; jit this.

    `average` makes loss and gradients those of all ranks, where `rows` are one rank's.
    """
    value, gradients = average(jax.value_and_grad(loss)(params, rows))
    changes, optimizer_state = optimizer().update(gradients, optimizer_state, params)
    return optax.apply_updates(params, changes), optimizer_state, value


def mean_over(axis: str) -> Callable[[Tree], Tree]:
    """Return a function that averages a tree over the ranks of a mesh axis, in one message for all its arrays."""

    def average(tree: Tree) -> Tree:
        flat, restore = ravel_pytree(tree)
        mean: Any = jax.lax.pmean  # untyped
        return restore(mean(flat, axis))

    return average


def save(folder: Path, state: State, seed: int) -> None:
    """Write a checkpoint that is complete and on disk, or not there at all; an existing one is replaced."""
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    arrays = {name: np.asarray(value) for name, value in _named(state).items()}
    shape = Shape(embedding=arrays["['params']['embedding']"].shape[1], hidden=arrays["['params']['output']"].shape[0])
    with (draft / _ARRAYS).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        _flush(file.fileno())
    with (draft / _META).open("w", encoding="utf-8") as file:
        json.dump({"step": state.step, "seed": seed, "shape": asdict(shape)}, file)
        file.flush()
        _flush(file.fileno())
    _flush_folder(draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
    _flush_folder(folder.parent)


def load(folder: Path) -> State:
    """Return the state in a checkpoint. Raises OSError when there is none, ValueError when it is another model's."""
    meta = json.loads((folder / _META).read_text(encoding="utf-8"))
    blank = fresh(shape=Shape(**meta["shape"]))
    with np.load(folder / _ARRAYS, allow_pickle=False) as arrays:
        wanted = _named(blank)
        if set(arrays.files) != set(wanted) or any(arrays[name].shape != wanted[name].shape for name in wanted):
            raise ValueError(f"{folder} holds another model: {sorted(set(arrays.files) ^ set(wanted))}")
        leaves = [jnp.asarray(arrays[name], wanted[name].dtype) for name in wanted]
    trees = jax.tree.unflatten(jax.tree.structure(_trees(blank)), leaves)
    return State(**trees, step=int(meta["step"]))


def newest(folder: Path) -> Path | None:
    """Return the checkpoint of the highest step anywhere below a folder, None when there is none."""
    found: list[tuple[int, str]] = []
    for meta in folder.glob(f"**/{_META}"):
        # One that is being written has a leading dot, and an old one may vanish meanwhile.
        if not meta.parent.name.startswith("."):
            with suppress(FileNotFoundError):
                found.append((int(json.loads(meta.read_text(encoding="utf-8"))["step"]), str(meta.parent)))
    return Path(max(found)[1]) if found else None


def _trees(state: State) -> dict[str, Tree]:
    return {"params": state.params, "optimizer": state.optimizer}


def _named(state: State) -> dict[str, jax.Array]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(_trees(state))
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _flush(descriptor: int) -> None:
    os.fsync(descriptor)


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Writer:
    """Writes on from prompts, a fixed number of texts at a time, so that XLA compiles one program only."""

    def __init__(self, params: Tree, rows: int = 1) -> None:
        """Serve up to `rows` texts at once."""
        self._params = params
        self._rows = rows
        self._read = jax.jit(read)

    def write(self, prompts: list[str], characters: int, temperature: float = 0.0, seed: int = 0) -> Iterator[str]:
        """Yield the next character of every text, as one string, `characters` times.

        Temperature 0 takes the likeliest character, 1 draws from what the model believes.
        """
        draw = np.random.default_rng(seed)
        memory, logits = self._begin(prompts)
        for _ in range(characters):
            codes = _choose(np.asarray(logits), temperature, draw)
            yield decode(codes[: len(prompts)])
            memory, logits = self._read(self._params, memory, jnp.asarray(codes))

    def _begin(self, prompts: list[str]) -> tuple[jax.Array, jax.Array]:
        if not 0 < len(prompts) <= self._rows:
            raise ValueError(f"{len(prompts)} prompts for a writer of 1 to {self._rows}")
        texts = [encode(prompt or "\n") for prompt in prompts] + [encode("\n")] * (self._rows - len(prompts))
        longest = max(map(len, texts))
        codes = np.stack([np.pad(text, (longest - len(text), 0)) for text in texts], axis=1)
        # Prompts end together. A text that has not begun remembers nothing, so its company does not change it.
        begun = np.stack([np.arange(longest) >= longest - len(text) for text in texts], axis=1)
        memory, logits = rest(self._params, self._rows), jnp.zeros((self._rows, len(ALPHABET)))
        for column, on in zip(codes, begun, strict=True):
            memory, logits = self._read(self._params, memory, jnp.asarray(column))
            memory = memory * on[:, None]
        return memory, logits


def _choose(logits: NDArray[np.float32], temperature: float, draw: np.random.Generator) -> NDArray[np.int32]:
    if temperature > 0:
        # The largest of logits plus Gumbel noise is a draw from their softmax.
        logits = logits / temperature + draw.gumbel(size=logits.shape).astype(np.float32)
    codes: NDArray[np.int32] = np.argmax(logits, axis=-1).astype(np.int32)
    return codes


def generate(params: Tree, prompt: str, characters: int, temperature: float = 0.0) -> Iterator[str]:
    """Yield the characters that the model writes after a prompt, one at a time."""
    return Writer(params).write([prompt], characters, temperature)
