"""Runs commands of `pyoco-client`: as processes (`Shell`), or in this process (`RunClient`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli import output
from pyoco_server.cli.client.program import app
from pyoco_server.cli.suggestions import CLIENT as PROGRAM
from support.programs import Program, client


class RunClient:
    """Runs commands in this process and returns their exit codes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self.printed = monkeypatch, capsys.readouterr

    def __call__(self, *arguments: str) -> int | str | None:
        self._monkeypatch.setattr("sys.argv", [PROGRAM, *arguments])
        with pytest.raises(SystemExit) as ended:
            output.run(app, PROGRAM)
        return ended.value.code


class CommandResult:
    """How a command ended and what it printed."""

    def __init__(self, program: Program) -> None:
        with program:
            self.code = program.exit_code()
        self.out, self.err = "\n".join(program.out.all()), "\n".join(program.err.all())

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Shell:
    """A shell in which PYOCO_SERVER is set."""

    def __init__(self, address: str, folder: Path) -> None:
        self.env, self.folder = {"PYOCO_SERVER": address}, folder

    def __call__(self, *arguments: str) -> CommandResult:
        return CommandResult(client(*arguments, cwd=self.folder, env=self.env))

    def submit(self, flow_name: str, *options: str) -> str:
        run_id: str = self("submit", "--flow-name", flow_name, *options).json()["run_id"]
        return run_id
