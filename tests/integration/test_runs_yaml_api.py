"""`POST /runs/yaml` on a real nats-server: accepted files are complete and safe, others get a specific error."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_client import AsyncPyocoHttpClient
from support.broker import Broker
from support.callers import api_key_headers, hand_out
from support.flow_files import TWO_TASKS
from support.gateways import gateway_settings, serving


async def send(client: httpx.AsyncClient, text: str | bytes = TWO_TASKS, **fields: str) -> httpx.Response:
    data = text if isinstance(text, bytes) else text.encode()
    files = {"workflow": ("flow.yaml", data, "application/yaml")}
    return await client.post("/runs/yaml", files=files, data={"flow_name": "nightly"} | fields)


async def refused(response: httpx.Response, status: int, err_id: str) -> str:
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["err_id"]) == (status, err_id)
    return str(body["detail"])


async def test_an_accepted_file_is_a_pending_run_with_tasks_and_defaults(client: httpx.AsyncClient) -> None:
    response = await send(client, tag="gpu", timeout_sec="90.5")

    assert response.status_code == 200
    assert response.json().keys() == {"run_id", "status", "durability", "warnings"}  # there is no worker
    run = (await client.get(f"/runs/{response.json()['run_id']}")).json()
    assert (run["status"], run["flow_name"], run["tag"], run["tags"]) == ("PENDING", "nightly", "gpu", ["gpu"])
    assert (run["params"], run["timeout_sec"]) == ({"day": "monday", "n": 2}, 90.5)
    assert run["tasks"] == {"load": "PENDING", "save": "PENDING"}
    assert run["workflow_yaml_sha256"] == sha256(TWO_TASKS.encode()).hexdigest()
    assert run["workflow_yaml_bytes"] == len(TWO_TASKS.encode())


async def test_params_override_defaults_of_the_file(client: httpx.AsyncClient) -> None:
    response = await send(client, params='{"day": "日曜", "n": null}')

    run = (await client.get(f"/runs/{response.json()['run_id']}")).json()
    assert run["params"] == {"day": "日曜", "n": None}


async def test_params_need_defaults_of_the_same_keys(client: httpx.AsyncClient) -> None:
    bare = "tasks:\n  load:\n    callable: tasks:load\nflow:\n  graph: load\n"

    response = await send(client, bare, params='{"' + "n" * 10_000 + '": 1}')

    detail = await refused(response, 422, "ERR-PYOCO-0002")
    assert "is given, but the file has no flow.defaults" in detail
    assert len(detail) < 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (TWO_TASKS.replace("load >> save", "load >> svae"), "line 5: flow.graph: Task not found: svae"),
        (TWO_TASKS.replace("load >> save", "load > save"), "line 5: flow.graph, line 1 of it: Unsupported operator"),
        (TWO_TASKS.replace("callable: tasks:load", "calable: tasks:load"), "line 2: unknown key 'calable'"),
        (TWO_TASKS + "flows: {}\n", "line 7: 'flows' is not accepted"),
        (TWO_TASKS.replace("monday", "2024-01-01"), "line 6: '2024-01-01' is a date"),
        ("[" * 262_144, "nested deeper"),
        ("", "empty"),
        ("tasks: \0", "characters"),
    ],
)
async def test_an_invalid_file_is_rejected_and_leaves_no_run(client: httpx.AsyncClient, text: str, words: str) -> None:
    assert words in await refused(await send(client, text), 422, "ERR-PYOCO-0002")
    assert (await client.get("/runs")).json() == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"flow_name": ""}, "flow_name: "),
        ({"flow_name": "名" * 257}, "flow_name: "),
        ({"tag": "a.b"}, "tag"),
        ({"tag": ""}, "tag"),
        ({"tag": "x" * 65}, "tag"),
        ({"param": "{}"}, "unknown part 'param'"),
        ({"params": "{"}, "the body is not JSON"),
        ({"params": "[]"}, "params must be a JSON object"),
        ({"params": '{"dya": "friday"}'}, "params: 'dya' is not a key of flow.defaults, which has day, n"),
        ({"strict": "perhaps"}, "strict: "),
        ({"timeout_sec": "0"}, "timeout_sec: "),
        ({"timeout_sec": "nan"}, "timeout_sec: "),
        ({"timeout_sec": "1e99"}, "timeout_sec: "),
        ({"timeout_sec": "soon"}, "timeout_sec: "),
        ({"timeout_sec": "1" * 33}, "timeout_sec: "),
    ],
)
async def test_an_invalid_field_is_named(client: httpx.AsyncClient, fields: dict[str, str], words: str) -> None:
    assert words in await refused(await send(client, **fields), 422, "ERR-PYOCO-0002")


async def test_a_missing_field_is_named(client: httpx.AsyncClient) -> None:
    no_file = await client.post("/runs/yaml", files={"flow_name": (None, "nightly")})
    no_name = await client.post("/runs/yaml", files={"workflow": TWO_TASKS.encode()})
    no_form = await client.post("/runs/yaml", json={"flow_name": "nightly"})

    assert "'workflow' is missing" in await refused(no_file, 422, "ERR-PYOCO-0002")
    assert "flow_name: " in await refused(no_name, 422, "ERR-PYOCO-0002")
    assert "content type" in await refused(no_form, 422, "ERR-PYOCO-0002")


@pytest.mark.parametrize("size", [262_145, 1_000_000, 3_000_000])
async def test_a_file_above_its_limit_has_a_specific_error(client: httpx.AsyncClient, size: int) -> None:
    assert "262144" in await refused(await send(client, b"#" * size), 413, "ERR-PYOCO-0016")


async def test_a_file_above_its_limit_is_detected_without_a_declared_size(client: httpx.AsyncClient) -> None:
    head = b'--cut\r\nContent-Disposition: form-data; name="workflow"; filename="flow.yaml"\r\n\r\n'

    async def endless() -> AsyncIterator[bytes]:
        yield head
        for _ in range(100):
            yield b"#" * 50_000

    kind = {"content-type": "multipart/form-data; boundary=cut"}
    response = await client.post("/runs/yaml", content=endless(), headers=kind)

    await refused(response, 413, "ERR-PYOCO-0016")


async def test_defaults_above_the_limit_of_params_are_too_large(client: httpx.AsyncClient) -> None:
    text = TWO_TASKS.replace("monday", "m" * 140_000)

    assert "params" in await refused(await send(client, text), 413, "ERR-PYOCO-0002")


async def test_a_run_above_the_message_limit_is_too_large_and_not_unavailable(tmp_path: Path) -> None:
    with Broker(tmp_path, max_payload=65_536) as broker:
        limits = {"workflow_yaml_max_bytes": 65_536, "max_run_snapshot_bytes": 65_536}
        async with serving(gateway_settings(broker.url, tmp_path, **limits)) as client:
            response = await send(client, (TWO_TASKS + "# ").ljust(65_500, "x"))

            await refused(response, 413, "ERR-PYOCO-0002")
            assert (await client.get("/runs")).json() == []


@pytest.mark.parametrize("setting", ["workflow_yaml_max_bytes", "max_run_snapshot_bytes"])
async def test_a_limit_above_the_message_limit_of_the_broker_prevents_the_start(tmp_path: Path, setting: str) -> None:
    limits = {"workflow_yaml_max_bytes": 65_536, "max_run_snapshot_bytes": 65_536} | {setting: 65_537}

    with Broker(tmp_path, max_payload=65_536) as broker, pytest.raises(InvalidUsage, match=f"PYOCO_{setting.upper()}"):
        async with serving(gateway_settings(broker.url, tmp_path, **limits)):
            pass


async def test_callables_that_are_not_allowed_are_named(nats_url: str, tmp_path: Path) -> None:
    async with serving(gateway_settings(nats_url, tmp_path, callable_allow="tasks:load, team.*:*")) as client:
        response = await send(client)
        allowed = await send(client, TWO_TASKS.replace("tasks:save", "team.reports:save"))

    assert "task 'save': the callable 'tasks:save'" in await refused(response, 422, "ERR-PYOCO-0002")
    assert allowed.status_code == 200


async def test_a_file_requires_the_write_scope_and_its_run_has_the_callers_tenant(
    nats_url: str, tmp_path: Path
) -> None:
    config = gateway_settings(nats_url, tmp_path, http_auth_mode="api_key", auth_pepper="a pepper")
    async with serving(config) as client:
        stranger = await send(client)
        client.headers.update(api_key_headers(await hand_out(config, "team-a", Scope.RUNS_READ)))
        reader = await send(client)
        client.headers.update(api_key_headers(await hand_out(config, "team-a")))
        run_id = (await send(client)).json()["run_id"]
        ours = await client.get(f"/runs/{run_id}")
        client.headers.update(api_key_headers(await hand_out(config, "team-b")))
        theirs = await client.get(f"/runs/{run_id}")

    await refused(stranger, 401, "ERR-PYOCO-0014")
    await refused(reader, 403, "ERR-PYOCO-0036")
    assert ours.json()["tenant_id"] == "team-a"
    await refused(theirs, 404, "ERR-PYOCO-0005")


async def test_the_form_of_the_sdk_is_accepted(client: httpx.AsyncClient) -> None:
    sdk = AsyncPyocoHttpClient(str(client.base_url), transport=client._transport)

    accepted = await sdk.submit_run_yaml(TWO_TASKS, "gpu", "from a program")

    run = (await client.get(f"/runs/{accepted['run_id']}")).json()
    assert (run["flow_name"], run["tag"]) == ("from a program", "gpu")
