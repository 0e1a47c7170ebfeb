"""Request and response models of `/jobs`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from pyoco_server.domain.execution.state import MAX_LABELS
from pyoco_server.http_api.protocol.fields import (
    RESULT,
    RESULT_TRUNCATED,
    WARNINGS,
    FlowName,
    Label,
    OpenCamel,
    Queue,
    Queued,
    Strict,
    StrictFlag,
    Tag,
    TimeoutSec,
    one_of,
)

JobStatus = Literal["pending", "running", "completed", "failed", "canceled"]
DateTime = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2026-02-18T12:00:00.000Z"])]

JOB_ID = "123e4567-e89b-12d3-a456-426614174000"


class JobSubmitRequest(Strict, Queued):
    """A job and its tags."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"parameters": {"input": "data.csv", "mode": "fast"}, "tags": ["urgent", "test"]}}
    )

    parameters: dict[str, Any] = Field(description="The params of the flow.")
    tags: list[Label] = Field(default_factory=list, max_length=MAX_LABELS, description="To find the job by.")
    labels: list[Label] | None = Field(default=None, max_length=MAX_LABELS, description="Another name of `tags`.")
    flow: FlowName | None = Field(default=None, description="Absent: the flow in PYOCO_JOBS_DEFAULT_FLOW.")
    tag: Tag | None = Field(default=None, description="Which workers may run it; the default tag when absent.")
    queue: Queue = None
    timeout_sec: TimeoutSec = None
    strict: StrictFlag = False

    @property
    def all_labels(self) -> list[str]:
        return self.tags if self.labels is None else self.labels

    @model_validator(mode="after")
    def _has_one_list_of_labels(self) -> Self:
        one_of("tags", self.tags if "tags" in self.model_fields_set else None, "labels", self.labels)
        return self


class TagRequest(Strict):
    """The tag to add to a job."""

    tag: Label = Field(examples=["analysis"])


class JobListed(OpenCamel):
    """A job in a list."""

    id: str = Field(examples=[JOB_ID])
    status: JobStatus
    created_at: DateTime
    started_at: DateTime | None = None
    completed_at: DateTime | None = Field(default=None, description="Its end, with any result.")
    tags: list[str] = Field(default_factory=list, examples=[["urgent", "test"]])
    flow: str | None = Field(default=None, examples=["main"])
    tag: str | None = Field(default=None, description="Which workers may run it; null: its nodes are claimed.")
    attempt: int = Field(default=0, description="How often it was started.")
    error: str | None = Field(default=None, description="The reason of a failure.")
    cancel_requested_at: DateTime | None = None
    timeout_sec: float | None = None


class Job(JobListed):
    """A job in its present state."""

    parameters: dict[str, Any] = Field(default_factory=dict, examples=[{"input": "data.csv", "mode": "fast"}])
    result: Any = Field(default=None, description=RESULT)
    result_truncated: bool | None = Field(default=None, description=RESULT_TRUNCATED)


class JobCreated(Job):
    """The new job."""

    warnings: list[str] | None = Field(default=None, description=WARNINGS)


class JobList(OpenCamel):
    """A page, the newest job first. The last page, and only that one, has no `nextToken`."""

    jobs: list[JobListed]
    next_token: str | None = Field(default=None, description="Send it as `nextToken` with the same filters.")


class TagCount(OpenCamel):
    """A tag and the number of its jobs, without archived ones."""

    tag: str = Field(examples=["urgent"])
    count: int = Field(ge=1, examples=[12])


class TagList(OpenCamel):
    """A page, in the order of the tags."""

    tags: list[TagCount]
    next_token: str | None = Field(default=None, description="Send it as `nextToken` with the same prefix.")
