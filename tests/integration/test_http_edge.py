"""The edge of a gateway over raw sockets: hosts, answers before the body, and the headers of every answer."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from support.broker import Broker
from support.streams import Gateway

BODY_BYTES = 300 * 1024 * 1024
# What socket buffers and the drain may take of it.
MOST_SENT_BYTES = 64 * 1024 * 1024


async def exchange(port: int, head: bytes) -> bytes:
    """The answer to raw bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(head)  # without an end: the gateway drops what a closed peer would not read
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.close()


def request(*fields: bytes, target: bytes = b"/runs", method: bytes = b"GET", version: bytes = b"1.1") -> bytes:
    head = [method + b" " + target + b" HTTP/" + version, *fields, b"Connection: close", b"", b""]
    return b"\r\n".join(head)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ((b"Host: localhost",), b"200"),
        ((b"HOST:LOCALHOST:1",), b"200"),
        ((b"Host: [::1]:8000",), b"200"),
        ((b"Host: evil.example",), b"421"),
        ((b"Host: evil.example", b"X-Forwarded-Host: localhost", b"Forwarded: host=localhost"), b"421"),
        ((b"Host: localhost", b"Host: localhost"), b"400"),
        ((b"Host: localhost", b"Host: evil.example"), b"400"),
        ((b"Host: localhost@evil.example",), b"400"),
        ((b"Host: localhost", b" evil.example"), b"400"),
        ((b"Host:",), b"400"),
        ((), b"400"),
    ],
)
async def test_only_requests_with_one_known_host_are_served(
    gateway: Gateway, fields: tuple[bytes, ...], status: bytes
) -> None:
    answer = await exchange(gateway.port, request(*fields))

    assert answer.split(b" ", 2)[1] == status
    if status == b"421":
        assert b"ERR-PYOCO-0074" in answer
        assert b"PYOCO_HTTP_ALLOWED_HOSTS" in answer


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (request(version=b"1.0"), b"400"),
        (request(b"Host: evil.example", version=b"1.0"), b"421"),
        (request(b"Host: evil.example", target=b"http://localhost/runs"), b"421"),
        (request(b"Host: localhost", target=b"http://evil.example/runs"), b"200"),
        (request(target=b"http://localhost/runs"), b"400"),
        (request(b"Host: evil.example", method=b"POST", target=b"/runs/yaml"), b"421"),
        (request(b"Host: evil.example", target=b"/nowhere"), b"421"),
        (request(b"Host: evil.example", target=b"/docs"), b"421"),
        (request(b"Host: evil.example", target=b"/metrics"), b"421"),
        (request(b"Host: evil.example", target=b"/healthy"), b"421"),
        (request(b"Host: evil.example", target=b"/health"), b"200"),
        (request(target=b"/health", version=b"1.0"), b"200"),
        (request(b"Host: a", b"Host: b", target=b"/health"), b"200"),
    ],
)
async def test_every_form_of_a_request_is_checked_and_probes_are_not(
    gateway: Gateway, head: bytes, status: bytes
) -> None:
    assert (await exchange(gateway.port, head)).split(b" ", 2)[1] == status


async def test_no_answer_redirects_to_the_host_of_a_request(gateway: Gateway) -> None:
    for target in (b"/runs/", b"/health/", b"/docs/", b"/docs/assets", b"//evil.example/", b"/jobs"):
        answer = await exchange(gateway.port, request(b"Host: localhost", target=target))

        assert b"\r\nlocation:" not in answer.lower(), target


def test_the_command_line_of_uvicorn_serves_the_same_checks(broker: Broker, tmp_path: Path) -> None:
    environment = {"PYOCO_NATS_URL": broker.url, "PYOCO_INDEX_PATH": str(tmp_path / "runs.sqlite")}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, fd = listener.getsockname()[1], listener.fileno()
        command = [sys.executable, "-m", "uvicorn", "--factory", "pyoco_server.http_api:create_app", "--fd", str(fd)]
        with subprocess.Popen(
            command, env=os.environ | environment, pass_fds=[fd], cwd=tmp_path, stderr=subprocess.DEVNULL
        ) as process:
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
                    refused = client.get("/runs", headers={"Host": "evil.example"})
                    redirected = client.get("/runs/", headers={"Host": "evil.example"})
                    served = client.get("/runs")
            finally:
                process.terminate()

    assert (refused.status_code, refused.json()["err_id"]) == (421, "ERR-PYOCO-0074")
    assert redirected.status_code == 421
    assert served.status_code == 200


@pytest.mark.parametrize("host", [b"evil.example", b"localhost\r\nHost: localhost"])
async def test_a_websocket_of_a_foreign_host_is_refused_with_the_error(gateway: Gateway, host: bytes) -> None:
    answer = await exchange(
        gateway.port,
        b"GET /jobs/x/ws HTTP/1.1\r\nHost: " + host + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    )

    assert answer.split(b" ", 2)[1] == (b"421" if b"evil" in host else b"400")
    assert b"err_id" in answer or b"errId" in answer or b"multiple" in answer.lower()


async def test_a_refused_websocket_is_answered_like_other_requests_and_is_no_error_of_the_gateway(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await exchange(
        gateway.port,
        b"GET /jobs/x/ws HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        b"X-Request-Id: 01J8TPZ7YJ1E1X4C5N9ZP3M3QJ\r\n\r\n",
    )
    await gateway.client.get("/health")

    head = answer.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert {
        b"x-content-type-options: nosniff",
        b"cache-control: no-store",
        b"x-request-id: 01j8tpz7yj1e1x4c5n9zp3m3qj",
    } <= set(head)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def answer_while_sending(port: int, head: bytes) -> tuple[bytes, int]:
    """The answer to a request whose body is sent without end, and how much of it the gateway took."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent, piece = 0, b"x" * 65536

    async def send() -> None:
        nonlocal sent
        try:
            while sent < BODY_BYTES:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
        except ConnectionError:
            pass

    writer.write(head)
    sending = asyncio.create_task(send())
    try:
        answer = b""
        try:
            async with asyncio.timeout(30):
                while found := await reader.read(65536):
                    answer += found
        except ConnectionError:
            pass
        await sending
        return answer, sent
    finally:
        sending.cancel()
        writer.transport.abort()


def large(target: bytes, method: bytes = b"POST", host: bytes = b"localhost", *, chunked: bool = False) -> bytes:
    size = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % BODY_BYTES
    head = b"%b %b HTTP/1.1\r\nHost: %b\r\n%b\r\n\r\n" % (method, target, host, size)
    return head + (b"%x\r\n" % BODY_BYTES if chunked else b"")


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("target", "method", "host", "status"),
    [
        (b"/nowhere", b"POST", b"localhost", b"404"),
        (b"/runs", b"DELETE", b"localhost", b"405"),
        (b"/runs", b"POST", b"evil.example", b"421"),
        (b"/runs?x=1", b"POST", b"localhost", b"422"),
        (b"/health", b"GET", b"localhost", b"200"),
    ],
)
async def test_a_body_is_not_read_once_the_request_is_answered(
    gateway: Gateway, target: bytes, method: bytes, host: bytes, status: bytes, chunked: bool
) -> None:
    answer, sent = await answer_while_sending(gateway.port, large(target, method, host, chunked=chunked))

    assert answer.split(b" ", 2)[1] == status
    assert b"\r\nconnection: close" in answer.lower()
    assert sent < MOST_SENT_BYTES


async def test_a_body_that_is_too_large_is_not_read_after_the_413(gateway: Gateway) -> None:
    answer, sent = await answer_while_sending(gateway.port, large(b"/runs"))

    assert answer.split(b" ", 2)[1] == b"413"
    assert sent < MOST_SENT_BYTES


@pytest.mark.settings(http_auth_mode="api_key")
async def test_a_body_is_not_read_after_a_401(gateway: Gateway) -> None:
    for target in (b"/runs", b"/wheels", b"/runs/yaml"):
        answer, sent = await answer_while_sending(gateway.port, large(target))

        assert answer.split(b" ", 2)[1] == b"401"
        assert sent < MOST_SENT_BYTES


async def test_the_connection_is_kept_after_a_small_body_that_was_not_read(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        for _ in range(2):
            writer.write(b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde")
            async with asyncio.timeout(20):
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(size)

            assert b"connection: close" not in head.lower()
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/runs", 200),
        ("GET", "/health", 200),
        ("GET", "/jobs/x", 404),
        ("GET", "/executions/x", 404),
        ("GET", "/nowhere", 404),
        ("DELETE", "/runs", 405),
        ("POST", "/jobs", 422),
    ],
)
async def test_json_is_neither_sniffed_nor_stored(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, path)

    assert response.status_code == status
    assert "json" in response.headers["content-type"]
    assert response.headers.get_list("x-content-type-options") == ["nosniff"]
    assert response.headers.get_list("cache-control") == ["no-store"]


@pytest.mark.parametrize("path", ["/jobs/{}/logs", "/openapi.json"])
async def test_what_can_be_revalidated_keeps_its_own_rule_for_caches(client: httpx.AsyncClient, path: str) -> None:
    run_id = (await client.post("/runs", json={"flow_name": "hello"})).json()["run_id"]

    response = await client.get(path.format(run_id))

    assert response.headers.get_list("cache-control") == ["private, no-cache"]
    assert response.headers.get_list("x-content-type-options") == ["nosniff"]
