"""Where runners live: an interpreter and what it can import; how one comes to be is the wheels' business."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.domain.execution.state import WheelUsed


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment over the worker's own; `sys_path` is what its interpreter finds by itself.

    `beneath` are the worker's own folders of installed packages: what the environment adds goes before them, and behind
    everything else that the worker can import.
    """

    key: str
    folder: Path
    python: Path
    sys_path: tuple[str, ...]
    beneath: tuple[str, ...]
    wheels: tuple[WheelUsed, ...]

    def path_over(self, own: Sequence[str]) -> list[str]:
        """The search path of a runner here, given that of the worker."""
        place = next((place for place, entry in enumerate(own) if entry in self.beneath), len(own))
        return [*own[:place], *(entry for entry in self.sys_path if entry not in own), *own[place:]]

    def variables(self, variables: dict[str, str]) -> dict[str, str]:
        """The environment variables of a runner here: the programs that tasks start find what the task finds."""
        scripts = str(self.python.parent)
        path = variables.get("PATH", os.defpath)
        return variables | {"PATH": f"{scripts}{os.pathsep}{path}", "VIRTUAL_ENV": str(self.folder)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Lodging:
    """An environment in use; `leave` is called once, when the last of its runners is gone. None: the worker's own."""

    environment: Environment | None = None
    leave: Callable[[], None] = lambda: None

    @property
    def python(self) -> str:
        return sys.executable if self.environment is None else str(self.environment.python)

    @property
    def key(self) -> str:
        return "" if self.environment is None else self.environment.key

    @property
    def wheels(self) -> tuple[WheelUsed, ...]:
        return () if self.environment is None else self.environment.wheels

    def sys_path(self) -> list[str]:
        return list(sys.path) if self.environment is None else self.environment.path_over(sys.path)

    def variables(self, variables: dict[str, str]) -> dict[str, str]:
        return variables if self.environment is None else self.environment.variables(variables)
