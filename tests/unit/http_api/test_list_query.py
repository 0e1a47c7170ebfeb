"""List queries: the tenant they are limited to, and whether the response is a page."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.http_api.api.runs.schemas import ListQuery


def test_all_filters_reach_the_index_with_the_tenant_of_the_caller() -> None:
    given: dict[str, Any] = {
        "status": "FAILED",
        "flow": "etl",
        "tag": "gpu",
        "tags": ["a", "b"],
        "workflow_yaml_sha256": "AB" * 32,
        "updated_after": 5,
        "cursor": "",
        "limit": 7,
        "submitted_after": "2026-02-18T12:00:00Z",
        "submitted_before": "1771416060",
        "id_prefix": "019a",
    }
    query = ListQuery(**given)

    assert query.of("acme") == RunQuery(
        limit=7,
        status="FAILED",
        flow="etl",
        tag="gpu",
        tenant_id="acme",
        labels=("a", "b"),
        workflow_yaml_sha256="ab" * 32,
        updated_after=5.0,
        submitted_after=1771416000.0,
        submitted_before=1771416060.0,
        id_prefix="019a",
    )


def test_a_query_without_filters_selects_all_runs_not_archived() -> None:
    assert ListQuery().of(None) == RunQuery(limit=50, archived=False)


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ({}, False),
        ({"status": "FAILED", "limit": 3, "include": ["full"], "tags": ["a"]}, False),
        ({"submitted_after": "0", "id_prefix": "0"}, False),
        ({"cursor": ""}, True),
        ({"updated_after": 0}, True),
        ({"workflow_yaml_sha256": "0" * 64}, True),
    ],
)
def test_the_response_is_a_page_if_a_page_or_a_difference_is_requested(query: dict[str, Any], page: bool) -> None:
    assert ListQuery(**query).wants_page is page
