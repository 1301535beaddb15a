"""What GPU-hours were used for, where somebody measures or says so: computing time, useful FLOPs, and what these cost.

Model FLOPs utilisation (MFU) is the model's own FLOPs over what the GPUs could have computed at their peak in the time
that they were held (Chowdhery et al., PaLM, 2022, section 4.1: for a dense model 6 FLOPs a parameter and token). Held
is all time from the admission to the end, so starting, leaving and work done twice lower it. Only work whose FLOPs are
stated is counted, only work that is measured has used hours. Does not know records.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet_app.twin.report.figures import Effort

HOUR_S = 3600.0
TERA, EXA = 1e12, 1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """GPU-seconds that somebody held, of those ran, and of those came to something."""

    held: float
    ran: float
    useful: float

    def times(self, share: float) -> Held:
        """Return a part of it."""
        return Held(held=self.held * share, ran=self.ran * share, useful=self.useful * share)


@dataclass(slots=True)
class EffortCount:
    """GPU-seconds that are measured, that computed by that, and whose FLOPs are stated; and those FLOPs, in 10^12."""

    measured: float = 0.0
    used: float = 0.0
    counted: float = 0.0
    tflop: float = 0.0

    def work(self, held: Held, sm_active: float | None, tflops: float | None) -> None:
        """Count the attempt of a workload."""
        if sm_active is not None:
            self.measured += held.held
            self.used += held.ran * sm_active
        if tflops is not None:
            self.counted += held.held
            self.tflop += held.useful * tflops

    def served(self, held: Held, sm_active: float | None, tflop: float | None) -> None:
        """Count the replicas of a service, which answered requests of so many 10^12 FLOPs together."""
        self.work(held, sm_active, None)
        if tflop is not None:
            self.counted += held.held
            self.tflop += tflop

    def figures(self, peak_tflops: float | None, price_per_gpu_hour: float) -> Effort:
        """Return it in numbers; a peak that nobody states leaves the utilisation open."""
        exaflop = self.tflop * TERA / EXA
        money = self.counted / HOUR_S * price_per_gpu_hour
        return Effort(
            measured_gpu_h=self.measured / HOUR_S,
            used_gpu_h=self.used / HOUR_S,
            counted_gpu_h=self.counted / HOUR_S,
            useful_exaflop=exaflop,
            mfu=self.tflop / (self.counted * peak_tflops) if peak_tflops and self.counted else None,
            money_per_exaflop=money / exaflop if exaflop else None,
        )
