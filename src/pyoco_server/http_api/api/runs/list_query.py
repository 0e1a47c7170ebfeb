"""The query parameters of `GET /runs`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.queries.cursors import MAX_CURSOR_CHARS
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import InvalidListQuery
from pyoco_server.http_api.api.runs.schemas import IncludeWord, RunStatus
from pyoco_server.http_api.dependencies import given_once
from pyoco_server.http_api.protocol.fields import Label

MAX_LABELS = 8


class ListQuery(BaseModel):
    """Filters, all of which apply. Unknown names are rejected: a misspelled filter would give a wrong list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: RunStatus | None = Field(default=None, examples=["RUNNING"])
    flow: str | None = Field(default=None, min_length=1, max_length=256, examples=["hello"])
    tag: str | None = Field(default=None, min_length=1, max_length=64, examples=["default"])
    tags: list[Label] | None = Field(
        default=None, max_length=MAX_LABELS, description="Labels; repeated: a run has all of them."
    )
    workflow_yaml_sha256: str | None = Field(
        default=None,
        pattern=r"^[0-9A-Fa-f]{64}$",
        description="Runs of this flow.yaml, by the digest that their snapshots show. The answer is an object.",
    )
    updated_after: float | None = Field(
        default=None,
        allow_inf_nan=False,
        description="Unix seconds: runs that changed later than this. The answer is an object.",
    )
    cursor: str | None = Field(
        default=None,
        max_length=MAX_CURSOR_CHARS,
        description="Empty to start, then `next_cursor` of the page before, with the same filters. The answer is an "
        "object.",
    )
    limit: int = Field(default=50, ge=1, le=200)
    include: list[IncludeWord] | None = Field(
        default=None,
        description="Any of them returns whole snapshots with task_records instead of summaries. Beyond 8 MiB "
        "a page ends early, and an array continues with summaries.",
    )

    @property
    def wants_page(self) -> bool:
        """Whether the answer is an object with a cursor instead of an array."""
        return not (self.cursor is None and self.updated_after is None and self.workflow_yaml_sha256 is None)

    def of(self, tenant_id: str | None) -> RunQuery:
        """The query of the index, for the runs of this tenant."""
        digest = self.workflow_yaml_sha256
        return RunQuery(
            limit=self.limit,
            status=self.status,
            flow=self.flow,
            tag=self.tag,
            tenant_id=tenant_id,
            labels=tuple(self.tags or ()),
            workflow_yaml_sha256=None if digest is None else digest.lower(),
            updated_after=self.updated_after,
        )


ListQueryDep = Annotated[ListQuery, Query()]
GIVEN_ONCE = given_once(InvalidListQuery, repeatable=("tags", "include"))
