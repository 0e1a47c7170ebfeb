"""A person at a shell: one command of `pyoco-client` after the other, how each ended and what it printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.programs import Program, client


class Asked:
    """How a command ended and what it printed."""

    def __init__(self, program: Program) -> None:
        with program:
            self.code = program.exit_code()
        self.out, self.err = "\n".join(program.out.all()), "\n".join(program.err.all())

    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Shell:
    """A terminal window of a person who has set PYOCO_SERVER."""

    def __init__(self, address: str, folder: Path) -> None:
        self.env, self.folder = {"PYOCO_SERVER": address}, folder

    def __call__(self, *arguments: str) -> Asked:
        return Asked(client(*arguments, cwd=self.folder, env=self.env))

    def submit(self, flow_name: str, *options: str) -> str:
        run_id: str = self("submit", "--flow-name", flow_name, *options).json()["run_id"]
        return run_id
