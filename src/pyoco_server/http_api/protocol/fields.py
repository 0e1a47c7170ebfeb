"""Request fields and base models shared by several APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from pyoco_server.domain.execution.state import MAX_TIMEOUT_SEC
from pyoco_server.domain.ids import MAX_LABEL_CHARS
from pyoco_server.http_api.protocol.times import QueryTime

T = TypeVar("T")

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
STRICT = (
    "Reject (422, ERR-PYOCO-0083) an unknown flow or parameter, a missing parameter, and a tag that is not served, as "
    "far as the running workers announce all of their flows. Otherwise these are `warnings`."
)
RESULT = (
    "What a completed run returned: the output of the task without successors, or an object of outputs "
    "by task if there are several. Absent while there is none."
)
RESULT_TRUNCATED = "true: the result was too large; it is null, or described by its size and beginning."
WARNINGS = "What the running workers cannot run as it is, as far as they announce it; absent: nothing."
StrictFlag = Annotated[bool, Field(strict=True, description=STRICT)]
IdPrefix = Annotated[str, Field(pattern=r"^[0-9a-f-]{1,36}$", examples=["019a7c3e"])]


class Strict(BaseModel):
    """A query or a body. Unknown names are rejected: a misspelled filter would give a wrong list."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Queue = Annotated[Tag | None, Field(description="Another name of `tag`.")]


class Queued(BaseModel):
    """Has `tag` and `queue`, two names of the routing tag: they may be equal, but not differ."""

    if TYPE_CHECKING:
        tag: str | None
        queue: str | None

    @property
    def routing_tag(self) -> str | None:
        return one_of("tag", self.tag, "queue", self.queue)

    @model_validator(mode="after")
    def _is_one_tag(self) -> Self:
        one_of("tag", self.tag, "queue", self.queue)
        return self


def one_of(name: str, value: T | None, alias: str, other: T | None) -> T | None:
    """The value of a field that has two names; an error if they have different values."""
    if value is not None and other is not None and value != other:
        raise PydanticCustomError(
            "two_names", "{name} and {alias} are the same field and differ", {"name": name, "alias": alias}
        )
    return other if value is None else value


class RangesQuery(Strict):
    """The filters by range of lists of runs and jobs."""

    submitted_after: QueryTime | None = Field(
        default=None,
        description="Submitted at this time or later: unix seconds, a date, or RFC 3339 (UTC without an offset).",
    )
    submitted_before: QueryTime | None = Field(default=None, description="Submitted earlier than this time.")
    id_prefix: IdPrefix | None = Field(default=None, description="The beginning of their ids.")


class Open(BaseModel):
    """A response. More fields may be added at any time."""

    model_config = ConfigDict(extra="allow")


class OpenCamel(Open):
    """The same with names in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)
