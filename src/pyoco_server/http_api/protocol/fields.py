"""Request fields shared by several APIs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

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
