"""What every part of a document that people write is made from."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a document: immutable, and with no key that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)
