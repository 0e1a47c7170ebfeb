"""`/dlq` over HTTP on a real nats-server: list, filters, pages and replay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyoco.core.models import Flow, Task
from pyoco.dsl.syntax import TaskWrapper

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.services.context import Stores
from pyoco_server.stores import DeadLetter
from pyoco_server.worker import PyocoNatsWorker
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.flow_files import TWO_TASKS
from support.gateways import FINISHED, gateway_settings, listed, serving, submit, wait_for_status
from support.samples import new_run_id


def picky(wanted: str = "nothing") -> str:
    if wanted != "good":
        raise ValueError(f"not {wanted}")
    return "fine"


def resolve(name: str) -> Flow:
    return Flow(name) >> TaskWrapper(Task(func={"picky": picky}[name], name=name))


@asynccontextmanager
async def running_worker(config: NatsBackendConfig) -> AsyncIterator[PyocoNatsWorker]:
    worker = await PyocoNatsWorker.connect(config, resolve, "w-1", ["default"])
    try:
        yield worker
    finally:
        await worker.close()


async def dead_letters(client: httpx.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    response = await client.get("/dlq", params=query)
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def write(stores: Stores, *items: DeadLetter) -> None:
    for letter in items:
        await stores.dead_letters.publish(letter)


async def test_a_failed_run_has_a_dead_letter_with_all_fields(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with running_worker(config) as worker:
        run_id = await submit(client, "picky", params={"wanted": "bad"}, tags=["nightly"])
        await worker.run_once(timeout=10.0)
        await wait_for_status(client, run_id, "FAILED")

    (letter,) = await dead_letters(client)

    assert letter | {"seq": 0, "timestamp": 0.0} == {
        "seq": 0,
        "timestamp": 0.0,
        "reason": "execution_error",
        "error": "ValueError: not bad",
        "run_id": run_id,
        "flow_name": "picky",
        "tag": "default",
        "tags": ["nightly"],
        "worker_id": "w-1",
        "num_delivered": 1,
        "subject": "pyoco.work.default",
    }


async def test_a_replay_is_a_new_run_with_equal_flow_and_params(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with running_worker(config) as worker:
        first = await submit(client, "picky", params={"wanted": "bad"}, tags=["nightly", "big"])
        await worker.run_once(timeout=10.0)
        await wait_for_status(client, first, "FAILED")
        (letter,) = await dead_letters(client)

        response = await client.post(f"/dlq/{letter['seq']}/replay")
        again = response.json()
        await worker.run_once(timeout=10.0)
        replayed = await wait_for_status(client, again["run_id"], *FINISHED)

    assert response.status_code == 200
    assert (again["status"], again["replay_of"]) == ("PENDING", {"seq": letter["seq"], "run_id": first})
    assert again["run_id"] != first
    assert (replayed["status"], replayed["replay_of"], replayed["flow_name"]) == ("FAILED", first, "picky")
    assert (replayed["params"], replayed["tag"], replayed["tags"]) == ({"wanted": "bad"}, "default", ["nightly", "big"])
    assert (await wait_for_status(client, first, "FAILED")).get("replay_of") is None


async def test_a_flow_yaml_run_is_replayed_with_its_text_and_tasks(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    files = {"workflow": ("flow.yaml", TWO_TASKS, "application/yaml")}
    submitted = await client.post("/runs/yaml", data={"flow_name": "main"}, files=files)
    first = (await client.get(f"/runs/{submitted.json()['run_id']}")).json()
    async with open_stores(config, name="test") as stores:
        await write(stores, DeadLetter(timestamp=1.0, reason="max_deliver", run_id=first["run_id"], tag="default"))
        (letter,) = await dead_letters(client)

        again = (await client.post(f"/dlq/{letter['seq']}/replay")).json()

        shown = (await client.get(f"/runs/{again['run_id']}")).json()
        jobs = await stores.queue.stored("default")
    same = ("flow_name", "params", "tasks", "workflow_yaml_sha256", "workflow_yaml_bytes")
    assert {name: shown[name] for name in same} == {name: first[name] for name in same}
    assert TWO_TASKS.splitlines()[0] in jobs[-1].payload.decode()


async def test_dead_letters_are_filtered_and_paged_newest_first(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with open_stores(config, name="test") as stores:
        await write(
            stores,
            *(
                DeadLetter(
                    timestamp=float(number),
                    reason=("execution_error", "flow_not_found", "max_deliver")[number % 3],
                    flow_name=("a", "b")[number % 2],
                    tag=("gpu", "cpu")[number % 2],
                )
                for number in range(12)
            ),
        )

    first = (await client.get("/dlq", params={"limit": 5})).json()
    second = (await client.get("/dlq", params={"limit": 7, "cursor": first["next_cursor"]})).json()

    assert [letter["timestamp"] for letter in (*first["items"], *second["items"])] == [float(n) for n in range(12)][
        ::-1
    ]
    assert (first["next_cursor"] is not None, second["next_cursor"]) == (True, None)
    assert {letter["reason"] for letter in await dead_letters(client, reason="max_deliver")} == {"max_deliver"}
    assert [letter["timestamp"] for letter in await dead_letters(client, tag="gpu", limit=2)] == [10.0, 8.0]
    assert {letter["tag"] for letter in await dead_letters(client, flow="b")} == {"cpu"}
    assert await dead_letters(client, tag="nobody") == []


async def test_a_list_has_long_errors_cut_where_the_caller_wants_it(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with open_stores(config, name="test") as stores:
        await write(
            stores,
            DeadLetter(timestamp=1.0, reason="execution_error", error="x" * 9000, tag="default"),
            DeadLetter(timestamp=2.0, reason="max_deliver", tag="default"),
        )

    cut, whole = await dead_letters(client, error_chars=10), await dead_letters(client)

    assert [letter["error"] for letter in cut] == [None, "x" * 10]
    assert [letter["error"] for letter in whole] == [None, "x" * 9000]


async def test_a_rare_dead_letter_is_found_among_many(client: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    async with open_stores(config, name="test") as stores:
        await write(stores, DeadLetter(timestamp=1.0, reason="flow_not_found", tag="a"))
        await write(stores, *(DeadLetter(timestamp=2.0, reason="execution_error", tag="a") for _ in range(1200)))

    assert [letter["timestamp"] for letter in await dead_letters(client, reason="flow_not_found")] == [1.0]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "201"},
        {"cursor": "abc"},
        {"cursor": "-1"},
        {"tag": "a b"},
        {"flavour": "x"},
        {"error_chars": "0"},
    ],
    ids=str,
)
async def test_an_invalid_query_is_rejected(client: httpx.AsyncClient, query: dict[str, str]) -> None:
    response = await client.get("/dlq", params=query)

    assert (response.status_code, response.json()["err_id"]) == (422, "ERR-PYOCO-0002")


async def test_a_replay_that_is_impossible_is_rejected_with_a_hint(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with open_stores(config, name="test") as stores:
        await write(
            stores,
            DeadLetter(timestamp=1.0, reason="invalid_job", run_id=new_run_id(), tag="a"),
            DeadLetter(timestamp=2.0, reason="execution_error", run_id=new_run_id(), tag="a"),
            DeadLetter(timestamp=3.0, reason="execution_error", tag="a"),
        )

    responses = [await client.post(f"/dlq/{seq}/replay") for seq in (1, 2, 3)]
    missing = [await client.post(f"/dlq/{seq}/replay") for seq in ("9", "0", "abc", "9" * 30)]

    assert [(response.status_code, response.json()["err_id"]) for response in responses] == [
        (409, "ERR-PYOCO-0041")
    ] * 3
    assert "submit it anew" in responses[1].json()["detail"]
    assert {(response.status_code, response.json()["err_id"]) for response in missing} == {(404, "ERR-PYOCO-0040")}


async def test_dead_letters_of_another_tenant_do_not_exist(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        config = gateway_settings(broker.url, tmp_path, http_auth_mode="api_key")
        everything = EVERY_SCOPE - {Scope.ADMIN}
        owner, stranger = [api_key_headers(await hand_out(config, team, *everything)) for team in ("team-a", "team-b")]
        admin = api_key_headers(await hand_out(config, "ops", Scope.ADMIN))
        reader = api_key_headers(await hand_out(config, "team-a", Scope.DLQ_READ))
        async with serving(config) as client, open_stores(config, name="test") as stores:
            client.headers.update(owner)
            run_id = await submit(client)
            await listed(client, [run_id])
            await write(
                stores,
                DeadLetter(timestamp=1.0, reason="max_deliver", run_id=run_id, tag="default"),
                DeadLetter(timestamp=2.0, reason="execution_error", run_id=new_run_id(), tag="default"),
            )

            async def shown(key: dict[str, str]) -> list[float]:
                client.headers.update(key)
                return [letter["timestamp"] for letter in await dead_letters(client)]

            seen_by = [await shown(key) for key in (owner, stranger, admin)]
            replays = [await client.post("/dlq/1/replay", headers=key) for key in (stranger, reader, admin)]
            client.headers.update(owner)
            again = (await client.get(f"/runs/{replays[2].json()['run_id']}")).json()

    assert seen_by == [[1.0], [], [2.0, 1.0]]
    assert [response.status_code for response in replays] == [404, 403, 200]
    assert (again["tenant_id"], again["replay_of"]) == ("team-a", run_id)
