"""Request fields and base models shared by several APIs."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC
from pyoco_server.domain.ids import MAX_LABEL_CHARS

FlowName = Annotated[str, Field(min_length=1, max_length=256, examples=["hello"])]
Tag = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=64, examples=["default"])]
Label = Annotated[str, Field(min_length=1, max_length=MAX_LABEL_CHARS)]
TimeoutSec = Annotated[
    float | None,
    Field(
        gt=0,
        le=MAX_TIMEOUT_SEC,
        strict=True,
        allow_inf_nan=False,
        description="Time limit of an attempt; then the run is stopped and FAILED (ERR-PYOCO-0042).",
        examples=[3600],
    ),
]


class Strict(BaseModel):
    """A query or a body. Unknown names are rejected: a misspelled filter would give a wrong list."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Open(BaseModel):
    """A response. More fields may be added at any time."""

    model_config = ConfigDict(extra="allow")


class OpenCamel(Open):
    """The same with names in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)
