"""`pyoco-client` and the wheel registry, against a real gateway, with progress bars on a real terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.broker import Broker
from support.gateways import gateway_settings
from support.served import served
from support.shells import Shell
from support.terminal import Terminal
from support.wheels import NAME, large_wheel, wheel, wheel_name


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("wheels")
    with Broker(folder) as broker, served(gateway_settings(broker.url, folder)) as address:
        yield Shell(address, folder)


def test_a_wheel_is_uploaded_listed_fetched_and_deleted(shell: Shell) -> None:
    (shell.folder / NAME).write_bytes(wheel())

    uploaded = shell("wheel-upload", "--wheel-file", NAME, "--tags", "gpu,batch", "--no-replace")

    assert uploaded.err == ""
    assert uploaded.json()["tags"] == ["gpu", "batch"]
    assert shell("wheels").json() == [uploaded.json()]
    assert NAME in shell("wheels", "--output", "table").out
    (shell.folder / "fetched").mkdir()
    assert shell("wheel-download", "--wheel-name", NAME, "--to", "fetched").json()["path"] == f"fetched/{NAME}"
    assert (shell.folder / "fetched" / NAME).read_bytes() == wheel()
    assert shell("wheel-delete", "--wheel-name", NAME).json() == {"name": NAME, "deleted": True}
    assert [event["action"] for event in shell("wheel-history", "--wheel-name", NAME).json()] == ["delete", "upload"]


def test_an_upload_on_a_terminal_has_a_progress_bar(shell: Shell) -> None:
    path = large_wheel(shell.folder / wheel_name("large"), 20_000_000, "large")
    words = ("-m", "pyoco_server.cli.client", "wheel-upload", "--wheel-file", str(path))

    with Terminal(*words, cwd=shell.folder, env=shell.env) as terminal:
        code, drawn = terminal.end()

    assert code == 0
    assert "20.1/20.1 MB" in drawn
    assert "the server checks and stores it" in drawn
    assert '"size_bytes"' in drawn


def test_a_wheel_that_cannot_be_written_is_reported(shell: Shell) -> None:
    (shell.folder / wheel_name("kept")).write_bytes(wheel("kept"))
    shell("wheel-upload", "--wheel-file", wheel_name("kept"))
    (shell.folder / "taken").mkdir()
    (shell.folder / "taken" / wheel_name("kept")).mkdir()

    printed = shell("wheel-download", "--wheel-name", wheel_name("kept"), "--to", "taken")

    assert printed.code == 1
    assert "error: --to: Is a directory" in printed.err
