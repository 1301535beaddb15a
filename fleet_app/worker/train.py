"""Ray Train inside the fleet: a trainer that runs in the arbiter's placement group and hears its notices.

    trainer = JaxTrainer(loop, scaling_config=fleet_scaling_config(), run_config=fleet_run_config())

The training loop itself uses nothing but Ray Train: it asks `ray.train.get_preemption_info()` after each step, and
when there is one it reports a checkpoint and returns, which ends the job. Each reported checkpoint is acknowledged
with the metric "step" of its report. Where a new attempt goes on is `Membership.resume_point()`.

Every private interface of Ray Train that the fleet relies on is in this module, and `check_contract()` says which of
them a version of Ray lacks. Does not know frameworks.
"""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray.train
from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
from ray.train.v2._internal.execution.callback import ReportCallback, WorkerGroupCallback
from ray.train.v2._internal.execution.scaling_policy import FixedScalingPolicy
from ray.train.v2._internal.execution.training_report import _TrainingReport
from ray.train.v2._internal.execution.worker_group import placement_group_handle, worker, worker_group
from ray.train.v2.api import data_parallel_trainer
from ray.train.v2.api.config import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.preemption import PreemptionInfo

from fleet_app.worker.contract import Notice
from fleet_app.worker.drain import DrainWatch, acknowledge, this_process
from fleet_app.worker.gang import Membership, with_niceness

# Typed as anything because attributes of both are replaced.
_TRAINER: Any = data_parallel_trainer
_WORKER_GROUP: Any = worker_group.WorkerGroup

_LOG = logging.getLogger(__name__)

LOOK_S = 1.0
"""How often it is looked whether a notice without a deadline has got one."""

STEP_METRIC = "step"
"""The metric of a report that says which step its checkpoint holds."""

_ENVIRONMENT = {
    # Ray Train looks at its workers this often, in seconds; a report and the end of a run wait for it (default 2).
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.25",
    # Ray Train's own watcher looks for nodes that leave. The arbiter does that for the whole fleet, and notifies.
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}


class ContractError(RuntimeError):
    """This version of Ray Train lacks what the fleet builds on."""


def fleet_scaling_config(**more: Any) -> ScalingConfig:
    """Return a scaling configuration with one worker for each bundle of the group; `more` are its other fields.

    Raises ContractError in a gang of several shapes, and in an elastic one: Ray Train's workers are all of one shape,
    and in one placement group.
    """
    membership = Membership.from_environment()
    if membership.job.min_nodes is not None:
        raise ContractError("Ray Train's workers share one placement group, an elastic job has one for each member")
    if membership.job.groups:
        raise ContractError("Ray Train's workers have one shape, this gang has several: use Membership.start_ranks()")
    return ScalingConfig(
        num_workers=membership.job.bundles,
        use_gpu=membership.job.gpus_per_bundle > 0,
        resources_per_worker=membership.bundle,
        **more,
    )


def fleet_run_config(**more: Any) -> RunConfig:
    """Return a run configuration that keeps the fleet's rules; `more` are its other fields.

    The run has the attempt's own name and its own place for checkpoints, and never restarts itself: a lost rank
    or a deadline ends the job, and the arbiter decides where and when the next attempt runs.
    """
    membership = Membership.from_environment()
    worker_runtime_env = with_niceness(more.pop("worker_runtime_env", {}))
    return RunConfig(
        worker_runtime_env=worker_runtime_env,
        name=membership.job.attempt,
        storage_path=membership.job.checkpoint_dir,
        callbacks=fleet_callbacks(),
        failure_config=FailureConfig(max_failures=0, max_preemption_failures=0, controller_failure_limit=0),
        **more,
    )


def fleet_callbacks() -> list[Any]:
    """Return the callbacks for `RunConfig(callbacks=...)` that make a trainer a member of the fleet.

    Also takes from this driver's trainers two things that are the arbiter's: to remove the group, and to ask Ray's
    autoscaler for nodes. Ray Train does both with detached actors, which would outlive the job. Its intervals are
    shortened where the environment does not set them, and what serves datasets starts only when there are some.
    Raises ContractError, gang.NotAFleetJobError.
    """
    check_contract()
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    _TRAINER.PlacementGroupCleanerCallback = _Nothing
    _TRAINER.DatasetsCallback = _datasets
    _TRAINER.create_scaling_policy = _ArbitersScale
    return [FleetCallback(Membership.from_environment())]


class FleetCallback(WorkerGroupCallback, ReportCallback):
    """Lives in Ray Train's controller: puts the workers into the group, passes notices on, acknowledges."""

    def __init__(self, membership: Membership) -> None:
        """Act for one attempt."""
        self._membership = membership
        self._bell: _Bell | None = None

    @contextmanager
    def on_worker_group_start(self) -> Iterator[None]:
        """Let the workers start in the group of the arbiter instead of one that Ray Train makes."""
        membership = self._membership

        def arbiters_group(*_: object) -> _ArbitersGroup:
            return _ArbitersGroup(membership.group())

        original = _WORKER_GROUP._create_placement_group
        _WORKER_GROUP._create_placement_group = arbiters_group
        try:
            yield
        finally:
            _WORKER_GROUP._create_placement_group = original

    def after_worker_group_start(self, worker_group: Any) -> None:
        """Begin to listen for a notice."""
        self._bell = _Bell(this_process(), worker_group.get_workers())
        self._bell.start()

    def after_report(self, training_report: _TrainingReport, metrics: list[dict[str, Any]]) -> None:
        """Acknowledge a checkpoint, which is in its place by now. A report without a checkpoint is none."""
        step = training_report.metrics.get(STEP_METRIC)
        if training_report.checkpoint is None:
            return
        if step is None:
            _LOG.warning("a checkpoint was reported without the metric %r: the fleet cannot resume it", STEP_METRIC)
            return
        acknowledge(training_report.checkpoint.path, int(step))

    def before_worker_group_shutdown(self, worker_group: Any) -> None:
        """Stop listening."""
        self._silence()

    def after_worker_group_abort(self, worker_group_context: Any) -> None:
        """Stop listening: an abort has no shutdown."""
        self._silence()

    def _silence(self) -> None:
        if self._bell is not None:
            self._bell.stop()
            self._bell = None


class _ArbitersGroup(placement_group_handle.DefaultPlacementGroupHandle):
    """A group that outlives the run: the arbiter made it and the arbiter removes it."""

    def shutdown(self) -> None:
        """Leave the group alone."""


class _Nothing(WorkerGroupCallback):
    """Stands where a callback of Ray Train's would."""


def _datasets(train_run_context: Any, datasets: dict[str, Any]) -> WorkerGroupCallback:
    """Serve datasets when there are any; without them Ray Train starts a process for nothing, 3 s of a core."""
    return DatasetsCallback(train_run_context, datasets) if datasets else _Nothing()


class _ArbitersScale(FixedScalingPolicy):
    """As many workers as the group has bundles; the arbiter has their GPUs already, so nobody is asked for any."""

    def after_controller_start(self, train_run_context: Any) -> None:
        """Ask nobody."""

    def _maybe_send_resource_request(self) -> None:
        """Ask nobody."""

    def _cancel_resource_request(self) -> None:
        """Nothing was asked."""


class _Bell(threading.Thread):
    """Rings when a notice comes, and again when one without a deadline gets one: every worker has it from Ray Train."""

    def __init__(self, watch: DrainWatch, workers: list[Any]) -> None:
        super().__init__(name="fleet-train-bell", daemon=True)
        self._watch = watch
        self._workers = workers
        self._stopped = threading.Event()

    def run(self) -> None:
        """Wait for the notice and pass it on; a worker that is dead by then is Ray Train's to find."""
        rung: Notice | None = None
        while not self._stopped.is_set():
            notice = self._watch.wait(1.0)
            if notice is not None and notice != rung and not self._stopped.is_set():
                _LOG.info("drain notice: %s; %s", notice.why, _left(notice))
                for each in self._workers:
                    each.actor.mark_preempt.remote(preemption_info(notice, self._workers))
                rung = notice
            if notice is not None and (notice.deadline_at is not None or self._stopped.wait(LOOK_S)):
                return

    def stop(self) -> None:
        """Ring no more."""
        self._stopped.set()


def _left(notice: Notice) -> str:
    if notice.deadline_at is None:
        return "leaves at the next checkpoint"
    return f"{notice.deadline_at - time.time():.1f} s left"


def preemption_info(notice: Notice, workers: list[Any]) -> PreemptionInfo:
    """Return a notice as Ray Train has it: all nodes leave, with all ranks, at the deadline.

    To be asked to move is a preemption without a deadline: Ray Train's own word for one of which none was reported. A
    worker goes by the last info that it was given, so a notice with a deadline that follows replaces it.
    """
    ranks: dict[str, list[int]] = {}
    for each in workers:
        ranks.setdefault(each.metadata.node_id, []).append(each.distributed_context.world_rank)
    deadline_ms = None if notice.deadline_at is None else int(notice.deadline_at * 1000)
    return PreemptionInfo(deadline_ms=deadline_ms, preempted_node_to_ranks=ranks)


def check_contract() -> None:
    """Raise ContractError when this version of Ray Train lacks something that this module replaces or calls."""
    wanted = {
        "WorkerGroup._create_placement_group(self, scaling_config, worker_group_context)": _takes(
            getattr(_WORKER_GROUP, "_create_placement_group", None), 3
        ),
        "RayTrainWorker.mark_preempt(self, info)": _takes(getattr(worker.RayTrainWorker, "mark_preempt", None), 2),
        "DefaultPlacementGroupHandle.shutdown(self)": _takes(
            getattr(placement_group_handle.DefaultPlacementGroupHandle, "shutdown", None), 1
        ),
        "data_parallel_trainer.PlacementGroupCleanerCallback()": hasattr(_TRAINER, "PlacementGroupCleanerCallback"),
        "data_parallel_trainer.DatasetsCallback(train_run_context, datasets)": _takes(
            getattr(_TRAINER, "DatasetsCallback", None), 2
        ),
        "data_parallel_trainer.create_scaling_policy(scaling_config)": _takes(
            getattr(_TRAINER, "create_scaling_policy", None), 1
        ),
        "FixedScalingPolicy._maybe_send_resource_request(self)": _takes(
            getattr(FixedScalingPolicy, "_maybe_send_resource_request", None), 1
        ),
        "FixedScalingPolicy._cancel_resource_request(self)": _takes(
            getattr(FixedScalingPolicy, "_cancel_resource_request", None), 1
        ),
        "ray.train.get_preemption_info()": hasattr(ray.train, "get_preemption_info"),
    }
    if missing := [name for name, present in wanted.items() if not present]:
        raise ContractError(f"Ray {ray.__version__} lacks {', '.join(missing)}: use the Ray that the fleet pins")


def _takes(function: Any, arguments: int) -> bool:
    return callable(function) and len(inspect.signature(function).parameters) == arguments
