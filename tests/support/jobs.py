"""Requests to `/jobs`."""

from __future__ import annotations

from typing import Any

import httpx

from support.executions import PAIR, new_key

# As it stands in the contract.
ANALYSIS: dict[str, Any] = {"parameters": {"input": "data.csv", "mode": "fast"}, "tags": ["urgent", "test"]}
PROBLEM = {"type", "title", "status", "detail", "instance", "code", "errId", "msgId", "hint"}


async def submit_job(client: httpx.AsyncClient, *tags: str, **body: Any) -> str:
    answer = await client.post("/jobs", json={"parameters": {}, "tags": list(tags), **body})
    assert answer.status_code == 201, answer.text
    job_id: str = answer.json()["id"]
    return job_id


async def job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/jobs/{job_id}")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def by_hand(client: httpx.AsyncClient, *commands: str) -> str:
    """An execution of a graph whose nodes are taken one by one, to which these commands were given."""
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
    answer = await client.get(f"/executions/{execution_id}/events", params={"limit": 1000})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Status and error id of a problem document, which has exactly the fields of the contract."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert set(body) - {"guard"} == PROBLEM, answer.text
    assert body["status"] == answer.status_code
    return answer.status_code, body["errId"]
