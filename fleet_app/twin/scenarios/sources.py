"""Histories as a scenario names them: whose jobs come, which of them and how often; whose requests, from when on.

Knows the shape of the file and what a value may be. Reads no file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from fleet_app.policy.section import Section
from fleet_app.policy.units import Gpus, Name, PositiveGpus, Seconds

Format = Literal["philly", "itp", "helios", "sacct", "kueue", "swf"]
"""What wrote a history of jobs: a reader of `readers` each."""

Text = Annotated[str, Field(min_length=1)]


def _moment(text: str) -> str:
    try:
        known = datetime.fromisoformat(text)
    except ValueError:
        known = None
    if known is None or known.tzinfo is None:
        must = "must be a moment with its zone"
        raise PydanticCustomError("fleet", "{must}", {"must": must, "fix": "Write for example 2024-05-13T00:00:00Z"})
    return text


MomentText = Annotated[str, AfterValidator(_moment)]


class Between(Section):
    """GPUs from `least` to `most`, both included."""

    least: PositiveGpus = 1
    most: PositiveGpus | None = None

    @model_validator(mode="after")
    def _has_room(self) -> Between:
        if self.most is not None and self.most < self.least:
            facts = {"must": "must have `most` no less than `least`", "fix": "Exchange the two"}
            raise PydanticCustomError("fleet", "{must}", facts)
        return self


class Only(Section):
    """Which jobs of a history come: those of a size, of some teams or queues of theirs; all where nothing is said."""

    gpus: Between = Between()
    teams: tuple[Text, ...] = ()
    queues: tuple[Text, ...] = ()


class History(Section):
    """Workloads that somebody's cluster had: a file, who wrote it, which of its jobs come and how often.

    The run begins `skips` after the first of them was submitted. With `scale` 2.5 each comes twice and every other one
    once more, the second a day after the first, round the end of the history; with 0.5 every other one comes, by luck.
    With `declares` each says how long it will run. `teams` says which of ours one of theirs is; the rest is the
    stream's own.
    """

    source: Format
    file: Text
    only: Only = Only()
    skips: Seconds = 0.0
    scale: Annotated[float, Field(gt=0.0, le=100.0)] = 1.0
    declares: bool = False
    teams: dict[str, Name] = Field(default_factory=dict)


class Azure(Section):
    """Demand over time as the requests a minute of an Azure LLM service, scaled to the peak, and repeated.

    The run begins at the moment `begins` of the trace; what was before that comes after its end. `column` is where the
    requests a minute are, beside `time_utc`.
    """

    source: Literal["azure"]
    file: Text
    peak: Gpus
    column: Text = "requests_per_minute"
    begins: MomentText | None = None
