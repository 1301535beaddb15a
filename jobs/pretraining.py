"""What pretraining gangs have in common, whatever their framework: what is asked for, and the loop that a rank runs.

Knows steps, checkpoints and notices. Does not know models, data or frameworks: a rank does a step and saves it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Protocol

import ray.train

KEPT_CHECKPOINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to train; every rank has the same.

    A step reads `rows` rows of `window` characters, over all ranks together, and takes at least `step_time_s`.
    """

    steps: int
    checkpoint_every: int
    print_every: int
    step_time_s: float
    rows: int
    window: int
    seed: int


class Rank(Protocol):
    """One process of a gang; `step` steps are done."""

    step: int

    def advance(self) -> None:
        """Do one step together with all other ranks."""

    def checkpoint(self) -> None:
        """Save this step, in rank 0, and report it."""

    def say(self, line: str) -> None:
        """Print a line; rank 0 speaks for all."""


def run(rank: Rank, plan: Plan) -> None:
    """Train on one rank until it is done, or until the fleet wants its GPUs back."""
    while rank.step < plan.steps:
        started = time.monotonic()
        rank.advance()
        # Ray Train asks rank 0 on behalf of all, so all ranks leave at the same step.
        leaving = ray.train.get_preemption_info() is not None
        if leaving or rank.step % plan.checkpoint_every == 0 or rank.step == plan.steps:
            rank.checkpoint()
        if leaving:
            rank.say(f"leaving at step {rank.step}: the fleet wants its GPUs back")
            return
        time.sleep(max(0.0, plan.step_time_s - (time.monotonic() - started)))
    rank.say(f"done at step {rank.step}")


def parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser of what a plan holds; a job adds its own options."""
    found = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--steps", type=int, default=2000)
    found.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    found.add_argument("--print-every", type=int, default=10, metavar="STEPS")
    found.add_argument("--step-time", type=float, default=0.0, metavar="SECONDS", help="least time a step takes")
    found.add_argument("--rows", type=int, default=32, help="rows of a batch, over all ranks")
    found.add_argument("--window", type=int, default=48, help="characters of a row")
    found.add_argument("--seed", type=int, default=0)
    return found


def plan_of(asked: argparse.Namespace) -> Plan:
    """Return the plan in a command line."""
    return Plan(
        steps=asked.steps,
        checkpoint_every=asked.checkpoint_every,
        print_every=asked.print_every,
        step_time_s=asked.step_time,
        rows=asked.rows,
        window=asked.window,
        seed=asked.seed,
    )
