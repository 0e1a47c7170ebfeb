"""The data folder: one owner at a time, also after any kind of crash."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyoco_server.adapters.embedded_nats.data_folder import DataFolder, find_running
from pyoco_server.errors import DataFolderInUse, InvalidUsage
from support.nats import connected, running_nats
from support.processes import wait_for_exit

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a child to its parent's life")

OWNER = """
import asyncio, sys
from pyoco_server.adapters.embedded_nats.data_folder import DataFolder
from pyoco_server.adapters.embedded_nats.server import EmbeddedNats

async def main():
    nats = EmbeddedNats(DataFolder.open(sys.argv[1]))
    await nats.start()
    print(nats.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def owner_process(data: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Another process that owns the folder, and the pid of its nats-server."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(data)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


async def test_a_second_opener_is_rejected_with_the_pid_of_the_owner(tmp_path: Path) -> None:
    with owner_process(tmp_path / "data") as (owner, _):
        with pytest.raises(DataFolderInUse) as refusal:
            DataFolder.open(tmp_path / "data")

        assert f"process {owner.pid}" in refusal.value.detail
        assert str(tmp_path / "data") in refusal.value.detail


@LINUX_ONLY
async def test_killing_the_owner_ends_its_server_and_releases_the_folder(tmp_path: Path) -> None:
    with owner_process(tmp_path / "data") as (owner, server_pid):
        owner.kill()
        owner.wait()

        async with running_nats(tmp_path) as server, connected(server):
            assert wait_for_exit(server_pid)


async def test_a_server_that_survives_its_owner_keeps_the_lock(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        server.folder.close()

        with pytest.raises(DataFolderInUse):
            DataFolder.open(tmp_path / "data")


async def test_the_error_shows_how_to_end_a_leftover_server(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        server.folder.close()
        (tmp_path / "data" / "lock").write_text(str(_dead_pid()))

        with pytest.raises(DataFolderInUse, match=f"kill {server.pid}"):
            DataFolder.open(tmp_path / "data")


def test_other_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    folder = DataFolder.open(tmp_path)
    command = [sys.executable, "-c", "print('started', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        folder.close()

        DataFolder.open(tmp_path).close()

        child.communicate(b"\n")


async def test_only_the_owner_can_read_the_folder(tmp_path: Path) -> None:
    async with running_nats(tmp_path):
        data = tmp_path / "data"
        modes = {name: (data / name).stat().st_mode & 0o777 for name in (".", "nats", "nats.token", "nats.conf")}

    assert modes == {".": 0o700, "nats": 0o700, "nats.token": 0o600, "nats.conf": 0o600}


def test_an_existing_folder_of_others_is_kept_and_its_secrets_are_tightened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    DataFolder.open(tmp_path).close()
    for name in (".", "nats", "index", "nats.token"):
        (tmp_path / name).chmod(0o755)

    DataFolder.open(tmp_path).close()

    modes = {name: (tmp_path / name).stat().st_mode & 0o777 for name in (".", "nats", "index", "nats.token")}
    assert modes == {".": 0o755, "nats": 0o700, "index": 0o700, "nats.token": 0o600}
    assert "chmod 700" in caplog.text


async def test_other_programs_find_the_running_server_by_its_folder(tmp_path: Path) -> None:
    assert find_running(tmp_path / "data") is None

    async with running_nats(tmp_path) as server:
        found = find_running(tmp_path / "data")
        assert found is not None
        assert (found.url, found.token) == (server.url, server.token)
        async with connected(found):
            pass

    assert find_running(tmp_path / "data") is None


async def test_the_record_of_a_dead_server_is_ignored(tmp_path: Path) -> None:
    async with running_nats(tmp_path) as server:
        record = (tmp_path / "data" / "nats.json").read_text()
        dead = str(server.pid)
    (tmp_path / "data" / "nats.json").write_text(record)

    assert find_running(tmp_path / "data") is None

    (tmp_path / "data" / "nats.json").write_text(record.replace(dead, str(os.getpid())))
    assert find_running(tmp_path / "data") is None


def test_a_folder_that_cannot_be_created_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InvalidUsage, match="cannot use the data folder"):
        DataFolder.open(tmp_path / "file" / "data")


def _dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid
