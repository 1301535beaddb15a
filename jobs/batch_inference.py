"""A backfill job: works through numbered prompts on lent GPUs and gives them back whenever they are wanted.

    python batch_inference.py --items 100000 --model none

One actor a bundle holds the GPUs. Each round gives every actor one item, then writes the answers to
`results.jsonl` in the order of their numbers. The checkpoint is the number of the next item with the length of that
file up to there: an attempt that resumes cuts off what came after it, so the file has every item exactly once,
whatever was killed when. `--model none` does arithmetic instead, so that many such jobs fit a small machine.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import ray

from fleet_app.worker.drain import acknowledge, drain_requested, install_signal_handler
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat

KEPT_CHECKPOINTS = 3
CHARACTERS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Items below `next_item` are done, and fill the first `size` bytes of the results."""

    next_item: int = 0
    size: int = 0


class Results:
    """The file with one line an item, and the checkpoints that say how far it counts."""

    def __init__(self, folder: Path, checkpoints: Path, progress: Progress) -> None:
        """Open the results in `folder` and cut them back to `progress`."""
        folder.mkdir(parents=True, exist_ok=True)
        checkpoints.mkdir(parents=True, exist_ok=True)
        self._checkpoints = checkpoints
        self.progress = progress
        self._path = folder / "results.jsonl"
        self._path.touch()
        if self._path.stat().st_size < progress.size:
            raise RuntimeError(f"{self._path} is shorter than the {progress.size} bytes that its checkpoint counts")
        os.truncate(self._path, progress.size)

    def append(self, answers: list[str]) -> None:
        """Add the answers of the next items."""
        first, size = self.progress.next_item, self.progress.size
        lines = [json.dumps({"item": first + i, "answer": answer}) + "\n" for i, answer in enumerate(answers)]
        data = "".join(lines).encode()
        with self._path.open("ab") as file:
            file.write(data)
        self.progress = Progress(next_item=first + len(answers), size=size + len(data))

    def checkpoint(self) -> Path:
        """Put everything on disk and return the checkpoint that says so."""
        with self._path.open("ab") as file:
            os.fsync(file.fileno())
        path = self._checkpoints / f"progress-{self.progress.next_item:08d}.json"
        draft = path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(asdict(self.progress), file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(path)
        for old in sorted(self._checkpoints.glob("progress-*.json"))[:-KEPT_CHECKPOINTS]:
            old.unlink()
        return path


def load(checkpoint: Path) -> Progress:
    """Return what a checkpoint says."""
    return Progress(**json.loads(checkpoint.read_text(encoding="utf-8")))


def prompt(item: int) -> str:
    """Return the prompt with that number."""
    subjects = ("The harbour master", "A good skipper", "The long voyage", "A ferry", "The bell")
    return f"{subjects[item % len(subjects)]} {item} "


@ray.remote
class Engine:
    """Holds the GPUs of one bundle and answers prompts."""

    def __init__(self, rank: int, model: str, checkpoint: str, item_time_s: float) -> None:
        """Load the model; an item takes at least `item_time_s`, as it would on a larger one."""
        self._item_time_s = item_time_s
        self._answer = arithmetic if model == "none" else language_model(checkpoint)

    def answer(self, item: int) -> str:
        """Return the answer to one item."""
        started = time.monotonic()
        answer = self._answer(prompt(item))
        time.sleep(max(0.0, self._item_time_s - (time.monotonic() - started)))
        return answer


def arithmetic(text: str) -> str:
    """Return a number that depends on every character of a text."""
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % 1_000_003
    return str(value)


def language_model(checkpoint: str) -> Callable[[str], str]:
    """Return the small language model as a function; untrained when there is no checkpoint."""
    import charlm

    found = charlm.newest(Path(checkpoint)) if checkpoint else None
    params = (charlm.load(found) if found else charlm.fresh()).params
    writer = charlm.Writer(params)
    return lambda text: "".join(writer.write([text], CHARACTERS))


def work(membership: Membership, asked: argparse.Namespace) -> None:
    """Process items until they are done or the fleet wants its GPUs back."""
    point = membership.resume_point()
    progress = load(Path(point.uri)) if point else Progress()
    results = Results(Path(membership.job.checkpoint_dir), membership.checkpoint_dir, progress)
    say = f"{membership.job.attempt}:"
    print(say, f"starts at item {progress.next_item}", flush=True)
    engines = membership.start_ranks(Engine, asked.model, asked.checkpoint, asked.item_time)
    saved = progress.next_item
    while (item := results.progress.next_item) < asked.items and drain_requested() is None:
        batch = range(item, min(item + len(engines), asked.items))
        # Not all engines have an item in the last round.
        results.append(ray.get([engine.answer.remote(i) for engine, i in zip(engines, batch, strict=False)]))
        heartbeat(results.progress.next_item)
        if results.progress.next_item - saved >= asked.checkpoint_every:
            saved = save(results)
            print(say, f"checkpoint at item {saved}", flush=True)
    print(say, f"leaves at item {save(results)} of {asked.items}: {drain_requested() or 'done'}", flush=True)


def save(results: Results) -> int:
    """Checkpoint and acknowledge; return the next item."""
    item = results.progress.next_item
    acknowledge(str(results.checkpoint()), item)
    return item


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--item-time", type=float, default=0.25, metavar="SECONDS", help="least time an item takes")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="ITEMS")
    parser.add_argument("--model", choices=("none", "charlm"), default="none")
    parser.add_argument("--checkpoint", default="", metavar="FOLDER", help="use the newest checkpoint of charlm here")
    return parser.parse_args()


def main() -> None:
    """Work, and exit 0: a drained job ends like one that is done, the fleet knows the difference."""
    asked = arguments()
    ray.init()
    install_signal_handler()
    work(Membership.from_environment(), asked)


if __name__ == "__main__":
    main()
