"""Fields with two names: `queue` of the routing tag, `labels` and `label` of the labels of jobs."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

YAML = b"tasks:\n  greet:\n    callable: tasks:greet\nflow:\n  graph: greet\n"


async def tag_of(client: httpx.AsyncClient, run_id: str) -> Any:
    return (await client.get(f"/runs/{run_id}")).json()["tag"]


async def submitted_by_yaml(client: httpx.AsyncClient, **fields: str) -> httpx.Response:
    file = {"workflow": ("flow.yaml", YAML, "application/yaml")}
    return await client.post("/runs/yaml", data={"flow_name": "main"} | fields, files=file)


@pytest.mark.parametrize("given", [{"queue": "gpu"}, {"tag": "gpu", "queue": "gpu"}], ids=["alias", "both"])
async def test_queue_is_the_routing_tag_wherever_something_is_submitted(
    client: httpx.AsyncClient, given: dict[str, str]
) -> None:
    run = await client.post("/runs", json={"flow_name": "hello"} | given)
    job = await client.post("/jobs", json={"parameters": {}} | given)
    by_yaml = await submitted_by_yaml(client, **given)
    execution = await client.post("/executions", json={"graphId": "hello"} | given)

    assert await tag_of(client, run.json()["run_id"]) == "gpu"
    assert job.json()["tag"] == "gpu"
    assert await tag_of(client, by_yaml.json()["run_id"]) == "gpu"
    assert execution.status_code in (201, 422), execution.text  # no worker announces the flow


async def test_queue_filters_lists_as_tag_does(client: httpx.AsyncClient) -> None:
    await client.post("/runs", json={"flow_name": "hello", "tag": "cpu"})
    run_id = (await client.post("/runs", json={"flow_name": "hello", "tag": "gpu"})).json()["run_id"]

    found = (await client.get("/runs", params={"queue": "gpu"})).json()

    assert [run["run_id"] for run in found] == [run_id]
    assert (await client.get("/dlq", params={"queue": "gpu"})).json()["items"] == []


async def test_labels_of_a_job_have_two_names(client: httpx.AsyncClient) -> None:
    job_id = (await client.post("/jobs", json={"parameters": {}, "labels": ["a", "b"]})).json()["id"]

    found = (await client.get("/jobs", params={"label": ["a", "b"]})).json()["jobs"]

    assert [(job["id"], job["tags"]) for job in found] == [(job_id, ["a", "b"])]


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("POST", "/runs", {"json": {"flow_name": "hello", "tag": "a", "queue": "b"}}),
        ("POST", "/jobs", {"json": {"parameters": {}, "tag": "a", "queue": "b"}}),
        ("POST", "/jobs", {"json": {"parameters": {}, "tags": ["a"], "labels": ["b"]}}),
        ("POST", "/executions", {"json": {"graphId": "hello", "tag": "a", "queue": "b"}}),
        ("GET", "/runs", {"params": {"tag": "a", "queue": "b"}}),
        ("GET", "/jobs", {"params": {"tag": "a", "label": "b"}}),
        ("GET", "/dlq", {"params": {"tag": "a", "queue": "b"}}),
    ],
)
async def test_two_names_with_different_values_are_refused(
    client: httpx.AsyncClient, method: str, path: str, given: dict[str, Any]
) -> None:
    refused = await client.request(method, path, **given)

    assert refused.status_code == 422, refused.text
    assert "are the same field and differ" in refused.text


async def test_two_tags_in_a_form_are_refused(client: httpx.AsyncClient) -> None:
    refused = await submitted_by_yaml(client, tag="a", queue="b")

    assert refused.status_code == 422
    assert "tag and queue are the same field and differ" in refused.json()["detail"]
