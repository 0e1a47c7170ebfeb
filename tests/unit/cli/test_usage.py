"""The options of the command lines: what they refuse before anything is started, and what their help shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from pyoco_server.cli import admin, output, server, worker
from pyoco_server.cli.broker import find_broker
from pyoco_server.cli.client import program as client
from pyoco_server.config import NatsBackendConfig

SERVER, WORKER = (server.app, "pyoco-server"), (worker.app, "pyoco-worker")
ADMIN, CLIENT = (admin.app, "pyoco-server-admin"), (client.app, "pyoco-client")


def end(monkeypatch: pytest.MonkeyPatch, program: tuple[typer.Typer, str], *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", [program[1], *arguments])
    with pytest.raises(SystemExit) as ended:
        output.run(*program)
    return ended.value.code


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.delenv("PYOCO_NATS_URL", raising=False)


@pytest.mark.parametrize(
    ("program", "arguments", "told"),
    [
        (SERVER, [], "Missing command"),
        (SERVER, ["down"], "down"),
        (SERVER, ["up", "--nonsense"], "--nonsense"),
        (SERVER, ["up", "surplus"], "surplus"),
        (SERVER, ["up", "--port", "70000"], "--port"),
        (SERVER, ["up", "--port", "http"], "--port"),
        (SERVER, ["up", "--nats-url", "nats://h:1", "--with-nats-bootstrap"], "exclude each other"),
        (SERVER, ["up", "--nats-url", "http://h:1"], "PYOCO_NATS_URL"),
        (SERVER, ["up", "--worker-concurrency", "0"], "--worker-concurrency"),
        (WORKER, ["--nats-url", "nowhere"], "PYOCO_NATS_URL"),
        (WORKER, ["--concurrency", "0"], "--concurrency"),
        (WORKER, ["--nonsense"], "--nonsense"),
        (ADMIN, [], "Missing command"),
        (ADMIN, ["api-key"], "Missing command"),
        (ADMIN, ["api-key", "create"], "--tenant team-a"),
        (ADMIN, ["api-key", "create", "--tenant", "t", "--scopes", "runs:raed"], "accepted: runs:read"),
        (ADMIN, ["api-key", "create", "--tenant", "t", "--output", "xml"], "--output"),
        (ADMIN, ["api-key", "create", "--tenant", "t", "--expires-in", "soon"], "--expires-in 90d"),
        (ADMIN, ["api-key", "create", "--tenant", "t", "--expires-at", "soon"], "--expires-at 2030-01-31"),
        (ADMIN, ["api-key", "create", "--tenant", "t", "--data-dir", "nowhere"], "no pyoco-server is up"),
        (ADMIN, ["api-key", "list", "--nats-url", "nowhere"], "PYOCO_NATS_URL"),
        (ADMIN, ["api-key", "revoke"], "api-key revoke 0123456789abcdef"),
        (ADMIN, ["api-key", "revoke", "nonsense"], "16 of the characters"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_line_that_cannot_be_understood_ends_with_1_and_names_the_trouble(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: tuple[typer.Typer, str],
    arguments: list[str],
    told: str,
) -> None:
    assert end(monkeypatch, program, *arguments) == 1

    said = capsys.readouterr()
    assert told in said.err
    assert "[ERR-PYOCO-0018]" in said.err
    assert "hint: " in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "correct"),
    [
        (["submit"], "submit --flow-name hello"),
        (["submit", "report"], "submit --flow-name report"),
        (["submit", "--param", "a=b", "report", "--watch"], "submit --param a=b --flow-name report --watch"),
        (["submit-yaml", "my/flow.yaml"], "submit-yaml --workflow-file my/flow.yaml"),
        (["--server", "http://h:1", "submit", "report"], "--server http://h:1 submit --flow-name report"),
        (["submit", "two", "words"], "submit --flow-name hello --param name=Ann --watch"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_corrected_command_would_be_understood(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], correct: str
) -> None:
    assert end(monkeypatch, CLIENT, *arguments) == 1

    assert f"example: pyoco-client {correct}\n" in capsys.readouterr().err


def test_who_stands_in_another_folder_is_told_that_the_address_is_a_guess(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    config = NatsBackendConfig.from_env()

    assert find_broker(config, None, None) is config
    assert "no pyoco-server is up with the data folder .pyoco" in capsys.readouterr().err
    assert find_broker(config, "nats://h:1", None) is config
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "setting", [("PYOCO_CONSUMER_ACK_WAIT_SEC", "soon"), ("PYOCO_ACK_PROGRESS_INTERVAL_SEC", "60")], ids=repr
)
@pytest.mark.parametrize("arguments", [(SERVER, ["up"]), (WORKER, [])], ids=["up", "worker"])
def test_a_setting_that_cannot_work_is_refused_by_its_name(
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
