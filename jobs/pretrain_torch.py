"""A gang with PyTorch: data-parallel pretraining of a byte-level model with Ray Train's TorchTrainer.

    python pretrain_torch.py --steps 2000 --checkpoint-every 20

The same contract as `pretrain.py`, in the framework that most gangs use: it runs in the group that the arbiter made,
resumes where the last acknowledged checkpoint was, and when the fleet wants its GPUs back it saves that very step and
exits 0. Needs the extra `torch`. Ranks meet over gloo on CPUs; on real GPUs pass `--device cuda`, which takes NCCL.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import ray
import ray.train
import torch
from pretraining import KEPT_CHECKPOINTS, Plan, parser, plan_of, run
from ray.train import Checkpoint, CheckpointConfig, CheckpointUploadMode
from ray.train.torch import TorchConfig, TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fleet_app.worker.drain import install_signal_handler
from fleet_app.worker.gang import Membership
from fleet_app.worker.heartbeat import heartbeat
from fleet_app.worker.train import fleet_run_config, fleet_scaling_config

TEXT = Path(__file__).resolve().parent / "data" / "fleets.txt"
BYTES = 256
HIDDEN = 96
STATE = "state.pt"


class ByteModel(nn.Module):
    """One gated recurrent layer that says which byte comes next."""

    def __init__(self) -> None:
        """Begin with random parameters."""
        super().__init__()
        self.embedding = nn.Embedding(BYTES, HIDDEN)
        self.memory = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.output = nn.Linear(HIDDEN, BYTES)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Return the logits of the byte after each byte: rows x window x 256."""
        read, _ = self.memory(self.embedding(codes))
        logits: torch.Tensor = self.output(read)
        return logits


def train(config: dict[str, Any]) -> None:
    """Train on one rank; Ray Train runs this in every worker."""
    plan = Plan(**config["plan"])
    run(Rank(plan, config["device"]), plan)


class Rank:
    """One process of the gang: its copy of the model, its part of the data."""

    def __init__(self, plan: Plan, device: str) -> None:
        """Load the acknowledged checkpoint, or begin anew, with the same parameters in every rank."""
        self.plan = plan
        self.membership = Membership.from_environment()
        context = ray.train.get_context()
        self.number, self.world = context.get_world_rank(), context.get_world_size()
        self.device = ray.train.torch.get_device() if device == "cuda" else torch.device(device)
        torch.manual_seed(plan.seed)
        model = ByteModel().to(self.device)
        self._model = DistributedDataParallel(model)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        self._loss_of = nn.CrossEntropyLoss()
        self._text = np.frombuffer(TEXT.read_bytes(), np.uint8)
        self.step, self.loss = self._resume(), float("nan")
        self.say(f"rank {self.number} of {self.world} starts after step {self.step}")

    def advance(self) -> None:
        """Do one step together with all other ranks."""
        rows = self._rows()
        logits = self._model(rows[:, :-1])
        loss = self._loss_of(logits.flatten(0, 1), rows[:, 1:].flatten())
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        self.step, self.loss = self.step + 1, float(loss)
        if self.number == 0:
            heartbeat(self.step)
            if self.step % self.plan.print_every == 0:
                self.say(f"step {self.step} loss {self.loss:.4f}")

    def checkpoint(self) -> None:
        """Save this step, in rank 0, and report it; the fleet acknowledges what is reported."""
        checkpoint = None
        if self.number == 0:
            folder = self.membership.checkpoint_dir / f"step-{self.step:08d}"
            folder.mkdir(parents=True, exist_ok=True)
            states = {"model": self._model.module.state_dict(), "optimizer": self._optimizer.state_dict()}
            draft = folder / f".{STATE}"
            with draft.open("wb") as file:
                torch.save({**states, "step": self.step}, file)
                file.flush()
                os.fsync(file.fileno())  # what is acknowledged is on disk
            draft.replace(folder / STATE)
            checkpoint = Checkpoint.from_directory(folder)
            self.say(f"checkpoint step {self.step} loss {self.loss:.4f}")
        ray.train.report(
            {"step": self.step, "loss": self.loss},
            checkpoint=checkpoint,
            checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD,
        )

    def say(self, line: str) -> None:
        """Print a line; rank 0 speaks for all."""
        if self.number == 0:
            print(f"{self.membership.job.attempt}: {line}", flush=True)

    def _rows(self) -> torch.Tensor:
        """Return this rank's rows of the next step, `window` + 1 bytes each; the same for every attempt."""
        text, window = self._text, self.plan.window
        mine = range(self.number, self.plan.rows, self.world)
        draws = [np.random.default_rng((self.plan.seed, self.step, row)) for row in mine]
        starts = [int(draw.integers(len(text) - window)) for draw in draws]
        rows = np.stack([text[start : start + window + 1] for start in starts])
        return torch.from_numpy(rows.astype(np.int64)).to(self.device)

    def _resume(self) -> int:
        point = self.membership.resume_point()
        if point is None:
            return 0
        state = torch.load(Path(point.uri) / STATE, map_location=self.device, weights_only=True)
        if state["step"] != point.step:
            raise RuntimeError(f"{point.uri} holds step {state['step']}, but step {point.step} was acknowledged")
        self._model.module.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        return point.step


def main() -> None:
    """Run the trainer until it is done or drained; exits non-zero only when training failed."""
    options = parser(__doc__)
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    asked = options.parse_args()
    ray.init()
    install_signal_handler()
    TorchTrainer(
        train,
        train_loop_config={"plan": asdict(plan_of(asked)), "device": asked.device},
        torch_config=TorchConfig(backend="nccl" if asked.device == "cuda" else "gloo"),
        scaling_config=fleet_scaling_config(),
        run_config=fleet_run_config(
            checkpoint_config=CheckpointConfig(num_to_keep=KEPT_CHECKPOINTS),
            worker_runtime_env={"env_vars": {"OMP_NUM_THREADS": "1", "RAY_TRAIN_ENABLE_PRINT_PATCH": "0"}},
        ),
    ).fit()


if __name__ == "__main__":
    main()
