"""Settings that the programs refuse before anything starts, and what their help shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from pyoco_server import __version__
from pyoco_server.cli import admin, output, server, worker
from pyoco_server.cli.client import program as client
from pyoco_server.cli.process import find_broker
from pyoco_server.config import NatsBackendConfig
from support.programs import clean_environment

SERVER, WORKER = (server.app, "pyoco-server"), (worker.app, "pyoco-worker")
ADMIN = (admin.app, "pyoco-server-admin")
CLIENT = (client.app, "pyoco-client")


def end(monkeypatch: pytest.MonkeyPatch, program: tuple[typer.Typer, str], *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", [program[1], *arguments])
    with pytest.raises(SystemExit) as ended:
        output.run(*program)
    return ended.value.code


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.delenv("PYOCO_NATS_URL", raising=False)


def test_a_guessed_broker_address_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    config = NatsBackendConfig.from_env()

    assert find_broker(config, None, None) is config
    assert f"no pyoco-server is up with the data folder {tmp_path}/pyoco-server" in capsys.readouterr().err
    assert find_broker(config, "nats://h:1", None) is config
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "language"),
    [
        (["up"], "en"),
        (["up", "--dashboard-lang", "ja"], "ja"),
        (["--dashboard-lang", "ja", "up"], "ja"),
        (["--dashboard-lang", "ja", "up", "--dashboard-lang", "auto"], "auto"),
    ],
)
def test_the_language_of_the_dashboard_is_that_of_the_option_else_of_the_setting(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], language: str
) -> None:
    started: list[NatsBackendConfig] = []
    monkeypatch.setattr("pyoco_server.cli.process.run_until_stopped", lambda run: started.append(run.__self__.config))
    monkeypatch.setenv("PYOCO_DASHBOARD_LANG", "en")

    assert end(monkeypatch, SERVER, *arguments) == 0
    assert [config.dashboard_lang for config in started] == [language]


@pytest.mark.parametrize(
    "setting", [("PYOCO_CONSUMER_ACK_WAIT_SEC", "soon"), ("PYOCO_ACK_PROGRESS_INTERVAL_SEC", "60")], ids=repr
)
@pytest.mark.parametrize("arguments", [(SERVER, ["up"]), (WORKER, [])], ids=["up", "worker"])
def test_an_unusable_setting_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    setting: tuple[str, str],
    arguments: tuple[tuple[typer.Typer, str], list[str]],
) -> None:
    monkeypatch.setenv(*setting)

    assert end(monkeypatch, arguments[0], *arguments[1]) == 1
    assert setting[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        (SERVER, ["up", "--help"]),
        (WORKER, ["--help"]),
        *((ADMIN, ["api-key", command, "--help"]) for command in ("create", "list", "revoke")),
    ],
    ids=lambda value: " ".join(value[1]),
)
def test_help_shows_an_example(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[tuple[typer.Typer, str], list[str]],
) -> None:
    assert end(monkeypatch, arguments[0], *arguments[1]) == 0
    assert "Example: " in capsys.readouterr().out


@pytest.mark.parametrize("program", [SERVER, WORKER, ADMIN, CLIENT], ids=lambda value: value[1])
def test_every_program_has_a_version_and_a_short_option_for_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: tuple[typer.Typer, str]
) -> None:
    assert end(monkeypatch, program, "--version") == 0
    assert capsys.readouterr().out.startswith(f"{program[1]} {__version__} (Python ")
    assert end(monkeypatch, program, "-h") == 0
    assert capsys.readouterr().out.startswith(f"Usage: {program[1]} [OPTIONS]")


@pytest.mark.parametrize("name", ["server", "worker", "admin", "client"])
def test_help_loads_nothing_heavy(name: str) -> None:
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    module = "client.program" if name == "client" else name
    code += f"from pyoco_server.cli.{module} import main; main()"

    ended = subprocess.run(
        [sys.executable, "-c", code, "--help"], env=clean_environment(), capture_output=True, check=True, text=True
    )

    heavy = {"asyncio", "fastapi", "httpx", "nats", "pydantic", "pyoco", "rich", "sqlite3", "uvicorn", "yaml"}
    assert heavy & set(ended.stderr.split()) == set()
