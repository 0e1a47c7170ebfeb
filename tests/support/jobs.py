"""Requests to `/jobs`."""

from __future__ import annotations

from typing import Any

import httpx

from support.executions import PAIR, new_key

# The example of the contract.
ANALYSIS: dict[str, Any] = {"parameters": {"input": "data.csv", "mode": "fast"}, "tags": ["urgent", "test"]}
PROBLEM = {"type", "title", "status", "detail", "instance", "code", "errId", "msgId", "hint"}


async def submit_job(client: httpx.AsyncClient, *tags: str, **body: Any) -> str:
    response = await client.post("/jobs", json={"parameters": {}, "tags": list(tags), **body})
    assert response.status_code == 201, response.text
    job_id: str = response.json()["id"]
    return job_id


async def job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    response = await client.get(f"/jobs/{job_id}")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def by_hand(client: httpx.AsyncClient, *commands: str) -> str:
    """An execution of a graph whose nodes are claimed one by one, after these commands."""
    (await client.put("/graphs/pair", json=PAIR)).raise_for_status()
    created = await client.post("/executions", json={"graphId": "pair"}, headers={"Idempotency-Key": new_key()})
    execution_id: str = created.json()["executionId"]
    for command in commands:
        await do(client, execution_id, command)
    return execution_id


async def do(client: httpx.AsyncClient, execution_id: str, command: str, body: Any = None) -> None:
    path, headers = f"/executions/{execution_id}/{command}", {"Idempotency-Key": new_key()}
    (await client.post(path, json=body, headers=headers)).raise_for_status()


async def events(client: httpx.AsyncClient, execution_id: str) -> list[dict[str, Any]]:
    response = await client.get(f"/executions/{execution_id}/events", params={"limit": 1000})
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


def refused(response: httpx.Response) -> tuple[int, str]:
    """Status and error id of a problem document, which has exactly the fields of the contract."""
    body = response.json()
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert set(body) - {"guard"} == PROBLEM, response.text
    assert body["status"] == response.status_code
    return response.status_code, body["errId"]
