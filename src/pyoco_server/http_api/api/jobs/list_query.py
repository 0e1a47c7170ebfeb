"""The query parameters of `GET /jobs` and `GET /tags`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from pyoco_server.domain.ids import MAX_LABEL_CHARS
from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery, decode_token
from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS
from pyoco_server.errors import InvalidListQuery
from pyoco_server.http_api.api.jobs.schemas import JobStatus
from pyoco_server.http_api.api.jobs.translate import RUN_STATUSES
from pyoco_server.http_api.dependencies import given_once
from pyoco_server.http_api.protocol.fields import Label

MAX_TAGS = 8


class _Query(BaseModel):
    # A misspelled filter would give a wrong list.
    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsQuery(_Query):
    """Filters, all of which apply. Unknown names are rejected."""

    tag: list[Label] | None = Field(
        default=None,
        max_length=MAX_TAGS,
        description="Repeated: a job has all of them.",
        examples=["urgent"],
    )
    status: JobStatus | None = Field(default=None, examples=["running"])
    limit: int = Field(default=50, ge=1, le=200)
    next_token: str | None = Field(
        default=None,
        alias="nextToken",
        max_length=MAX_TOKEN_CHARS,
        description="The `nextToken` of the page before, with the same filters.",
    )

    def of(self, tenant_id: str | None) -> JobQuery:
        """The query of the index, for the jobs of this tenant."""
        query = JobQuery(
            limit=self.limit,
            status=() if self.status is None else RUN_STATUSES[self.status],
            tenant_id=tenant_id,
            labels=tuple(self.tag or ()),
        )
        return query if self.next_token is None else replace(query, before=decode_token(self.next_token, query))


class TagsQuery(_Query):
    """Filters of tags. Unknown names are rejected."""

    prefix: str = Field(default="", max_length=MAX_LABEL_CHARS, description="Their prefix.", examples=["ur"])
    limit: int = Field(default=100, ge=1, le=1000)
    next_token: str | None = Field(
        default=None,
        alias="nextToken",
        max_length=MAX_TOKEN_CHARS,
        description="The `nextToken` of the page before, with the same prefix.",
    )

    def of(self, tenant_id: str | None) -> LabelQuery:
        """The query of the index: one label more than shown, to know whether there is another page."""
        query = LabelQuery(prefix=self.prefix, tenant_id=tenant_id, limit=self.limit + 1)
        return query if self.next_token is None else replace(query, after=decode_token(self.next_token, query))


JobsQueryDep = Annotated[JobsQuery, Query()]
TagsQueryDep = Annotated[TagsQuery, Query()]
JOBS_GIVEN_ONCE = given_once(InvalidListQuery, repeatable=("tag",))
TAGS_GIVEN_ONCE = given_once(InvalidListQuery)
