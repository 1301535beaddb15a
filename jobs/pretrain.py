"""A gang that really learns: data-parallel pretraining of the small language model with Ray Train's JaxTrainer.

    python pretrain.py --steps 2000 --checkpoint-every 20

Every rank reads its own rows of each batch, gradients are averaged over all ranks, and the loss falls. It runs in
the group that the arbiter made, resumes exactly where the last acknowledged checkpoint was, and when the fleet wants
its GPUs back it saves that very step and exits 0. On real GPUs pass `--platform cuda`.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import ray
import ray.train
from pretraining import KEPT_CHECKPOINTS, Plan, parser, plan_of, run
from ray.train import Checkpoint, CheckpointConfig, CheckpointUploadMode
from ray.train.v2.jax import JaxTrainer

from fleet_app.worker.drain import install_signal_handler
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat
from fleet_app.worker.train import fleet_run_config, fleet_scaling_config

# One thread a rank: on the CPU ranks share the cores of one machine, and the model is too small to share out further.
LIGHT = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    # Without it every line is in the job's log twice: printed, and logged by Ray Train.
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
}
METRICS = "metrics.jsonl"
"""Beside the checkpoints: a line a printed step, with its loss."""

AXIS = "devices"


def train(config: dict[str, Any]) -> None:
    """Train on one rank; Ray Train runs this in every worker."""
    plan = Plan(**config)
    run(Rank(plan), plan)


class Rank:
    """One process of the gang: a copy of the parameters, its part of the data, the program that all run together."""

    def __init__(self, plan: Plan) -> None:
        """Load the acknowledged checkpoint, or begin anew."""
        # Imported here, where the platform is set: the driver needs no JAX.
        import charlm
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.plan, self._charlm = plan, charlm
        self.membership = Membership.from_environment()
        context = ray.train.get_context()
        self.number, self.world = context.get_world_rank(), context.get_world_size()
        if jax.process_count() != self.world:
            raise RuntimeError("the ranks do not see one another: Ray Train joins them only when bundles have GPUs")
        mesh = Mesh(jax.devices(), (AXIS,))
        spec: Any = PartitionSpec  # its constructor is untyped
        same, split = NamedSharding(mesh, spec()), NamedSharding(mesh, spec(AXIS))
        self._globally = partial(jax.make_array_from_process_local_data, split)
        # Each device computes the gradients of its rows; one all-reduce makes them, and so the parameters, the same.
        update = partial(charlm.update, average=charlm.mean_over(AXIS))
        update = jax.shard_map(
            update, mesh=mesh, in_specs=(spec(), spec(), spec(AXIS)), out_specs=spec(), check_vma=False
        )
        self._update = jax.jit(update, donate_argnums=(0, 1))
        start = self._start()
        self.step, self.loss = start.step, float("nan")
        self._params, self._optimizer = jax.device_put((start.params, start.optimizer), same)
        self.say(f"rank {self.number} of {self.world} on {jax.device_count()} devices starts after step {self.step}")

    def advance(self) -> None:
        """Do one step together with all other ranks."""
        share = self.plan.rows // self.world
        mine = range(self.number * share, (self.number + 1) * share)
        rows = self._charlm.batch(self.plan.seed, self.step, mine, self.plan.window)
        self._params, self._optimizer, loss = self._update(self._params, self._optimizer, self._globally(rows))
        self.step, self.loss = self.step + 1, float(loss)
        if self.number == 0:
            heartbeat(self.step)
            if self.step % self.plan.print_every == 0:
                self.say(f"step {self.step} loss {self.loss:.4f}")
                with (self.membership.checkpoint_dir / METRICS).open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"step": self.step, "loss": self.loss}) + "\n")

    def checkpoint(self) -> None:
        """Save this step, in rank 0, and report it; the fleet acknowledges what is reported."""
        checkpoint = None
        if self.number == 0:
            folder = self.membership.checkpoint_dir / f"step-{self.step:08d}"
            state = self._charlm.State(self._params, self._optimizer, self.step)
            self._charlm.save(folder, state, self.plan.seed)
            checkpoint = Checkpoint.from_directory(folder)
            self.say(f"checkpoint step {self.step} loss {self.loss:.4f}")
        # It is where it belongs already, whole and on disk, so Ray Train need not copy it.
        ray.train.report(
            {"step": self.step, "loss": self.loss},
            checkpoint=checkpoint,
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    def say(self, line: str) -> None:
        """Print a line; rank 0 speaks for all."""
        if self.number == 0:
            print(f"{self.membership.job.attempt}: {line}", flush=True)

    def _start(self) -> Any:
        point = self.membership.resume_point()
        if point is None:
            return self._charlm.fresh(self.plan.seed)
        state = self._charlm.load(Path(point.uri))
        if state.step != point.step:
            raise RuntimeError(f"{point.uri} holds step {state.step}, but step {point.step} was acknowledged")
        return state


def main() -> None:
    """Run the trainer until it is done or drained; exits non-zero only when training failed."""
    options = parser(__doc__)
    options.add_argument("--platform", default=os.environ.get("JAX_PLATFORMS", "cpu"), help="cpu, cuda")
    asked = options.parse_args()
    ray.init()
    install_signal_handler()
    environment = {**LIGHT, "JAX_PLATFORMS": asked.platform}
    JaxTrainer(
        train,
        train_loop_config=asdict(plan_of(asked)),
        scaling_config=fleet_scaling_config(),
        run_config=fleet_run_config(
            checkpoint_config=CheckpointConfig(num_to_keep=KEPT_CHECKPOINTS),
            worker_runtime_env={"env_vars": environment},
        ),
    ).fit()


if __name__ == "__main__":
    main()
