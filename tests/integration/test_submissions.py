"""Submissions that no running worker can run: warnings, or a rejection where the request is strict."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest

from pyoco_server.bootstrap import open_stores
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.fleet.flows import AnnouncedFlow, FlowAnnouncement
from pyoco_server.errors import BrokerUnavailable
from pyoco_server.stores import SnapshotStore
from support.gateways import serving
from support.workers import Working, at_work

HELLO = AnnouncedFlow(name="hello", nodes=("greet",), params=(("name", False),), takes_others=False)
COPY = AnnouncedFlow(name="copy", nodes=("read",), params=(("path", True),), takes_others=False)
GRAPH = {"nodes": ["build"], "edges": []}
YAML = "tasks:\n  load:\n    callable: tasks:load\nflow:\n  graph: load\n  defaults:\n    day: monday\n"


def worker(stores: Any, config: NatsBackendConfig, *, complete: bool = True) -> AbstractAsyncContextManager[Working]:
    return at_work(
        stores, config, announcement=FlowAnnouncement(flows=(HELLO, COPY), is_complete=complete), name="w-1", slots=1
    )


async def known(client: httpx.AsyncClient) -> None:
    """Wait until the gateway knows the worker."""
    async with asyncio.timeout(20):
        while not (await client.get("/workers")).json():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def send(client: httpx.AsyncClient, path: str, body: dict[str, Any], key: str = "") -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    if path == "/runs/yaml":
        fields = {name: str(value).lower() for name, value in body.items()}
        return await client.post(path, files={"workflow": ("flow.yaml", YAML)}, data=fields, headers=headers)
    return await client.post(path, json=body, headers=headers)


DOUBTFUL = [
    ("/runs", {"flow_name": "helo"}, "the flow 'helo', did you mean 'hello'?"),
    ("/runs", {"flow_name": "hello", "params": {"nmae": 1}}, "no parameter 'nmae', did you mean 'name'?"),
    ("/runs", {"flow_name": "copy"}, "requires the parameter 'path'"),
    ("/runs", {"flow_name": "hello", "tag": "defualt"}, "the tag 'defualt', did you mean 'default'?"),
    ("/runs", {"flow_name": "hello", "params": {"n" * 100_000: 1}}, "no parameter 'nnn"),
    ("/runs/yaml", {"flow_name": "main", "tag": "gpu"}, "the tag 'gpu', but others serve 'default'"),
    ("/jobs", {"parameters": {"nmae": 1}, "flow": "hello"}, "no parameter 'nmae', did you mean 'name'?"),
    ("/executions", {"graphId": "helo"}, "no graph or flow 'helo', did you mean 'hello'?"),
    ("/executions", {"graphId": "hello", "input": {"nmae": 1}}, "no parameter 'nmae', did you mean 'name'?"),
    ("/executions", {"graphId": "hello", "tag": "gpu"}, "the tag 'gpu'"),
]


@pytest.mark.parametrize(("path", "body", "words"), DOUBTFUL)
async def test_a_doubtful_submission_is_accepted_with_a_warning_and_refused_if_strict(
    config: NatsBackendConfig, path: str, body: dict[str, Any], words: str
) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores, worker(stores, config):
        await known(client)

        accepted = await send(client, path, body, "key-1")
        first = await send(client, path, body | {"strict": True}, "key-2")
        refused = await send(client, path, body | {"strict": True}, "key-2")
        again = await send(client, path, body, "key-1")

        assert accepted.status_code in (200, 201, 202), accepted.text
        assert words in accepted.json()["warnings"][0]
        assert refused.status_code == first.status_code == 422
        assert "ERR-PYOCO-0083" in refused.text
        assert words in refused.json().get("detail", refused.text)
        assert again.json() == accepted.json()
        runs = (await client.get("/runs")).json()
        assert len(runs) == 1


@pytest.mark.parametrize("path", ["/runs", "/jobs", "/executions"])
async def test_a_fitting_submission_has_no_warnings(config: NatsBackendConfig, path: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "/runs": {"flow_name": "copy", "params": {"path": "a"}},
        "/jobs": {"flow": "hello", "parameters": {"name": "Ann"}},
        "/executions": {"graphId": "hello", "input": {"name": "Ann"}},
    }
    async with serving(config) as client, open_stores(config, name="w") as stores, worker(stores, config):
        await known(client)

        accepted = await send(client, path, bodies[path] | {"strict": True}, "key-1")

        assert accepted.status_code in (200, 201, 202), accepted.text
        assert "warnings" not in accepted.json()


@pytest.mark.parametrize("body", [{"flow_name": "helo"}, {"flow_name": "hello", "params": {"nmae": 1}}])
async def test_a_worker_without_a_complete_list_refuses_nothing(
    config: NatsBackendConfig, body: dict[str, Any]
) -> None:
    async with (
        serving(config) as client,
        open_stores(config, name="w") as stores,
        worker(stores, config, complete=False),
    ):
        await known(client)

        accepted = await send(client, "/runs", body | {"strict": True})

        assert accepted.status_code == 200, accepted.text
        assert len(accepted.json()["warnings"]) == 1


async def test_without_workers_everything_is_accepted_with_a_warning_in_the_language_of_the_caller(
    config: NatsBackendConfig,
) -> None:
    async with serving(config) as client:
        body = {"flow_name": "helo", "tag": "gpu", "strict": True}

        english = await client.post("/runs", json=body)
        japanese = await client.post("/runs", json=body, headers={"Accept-Language": "ja"})

        assert english.json()["warnings"] == ["no worker is running now, and the run waits for one"]
        assert japanese.json()["warnings"] == ["稼働中の worker がないため、run は worker を待ちます"]


async def test_a_stored_graph_is_known_and_an_unknown_one_is_refused_if_strict(config: NatsBackendConfig) -> None:
    async with serving(config) as client, open_stores(config, name="w") as stores, worker(stores, config):
        await known(client)
        await client.put("/graphs/release", json=GRAPH)

        found = await send(client, "/executions", {"graphId": "release", "strict": True}, "key-1")
        similar = await send(client, "/executions", {"graphId": "relaese", "strict": True}, "key-2")
        other = await send(client, "/executions", {"graphId": "zzz", "strict": True}, "key-3")
        opened = await send(client, "/executions", {"graphId": "zzz"}, "key-4")

        assert (found.status_code, similar.status_code, other.status_code, opened.status_code) == (202, 422, 422, 202)
        assert "did you mean 'release'?" in similar.text
        assert "warnings" not in opened.json()


async def test_a_continued_submission_is_not_refused_after_its_run_was_stored(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"flow_name": "helo", "strict": True}
    async with serving(config) as client, open_stores(config, name="w") as stores:
        with monkeypatch.context() as patched:
            patched.setattr(SnapshotStore, "advance", _no_broker)
            interrupted = await send(client, "/runs", body, "key-1")
        async with worker(stores, config):
            await known(client)

            continued = await send(client, "/runs", body, "key-1")
            new = await send(client, "/runs", body, "key-2")

    assert (interrupted.status_code, continued.status_code, new.status_code) == (503, 200, 422)


async def _no_broker(*_: Any, **__: Any) -> None:
    raise BrokerUnavailable
