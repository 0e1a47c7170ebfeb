"""Reads the side effects that flows recorded, the only evidence that does not come from the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEffect:
    """A flow's record: it began, progressed, saw these wheels, or ended with so many printed lines."""

    at: float
    run_id: str
    pid: int
    what: str
    detail: str = ""


def parse(text: str) -> list[SideEffect]:
    lines = []
    for line in text.splitlines():
        at, run_id, pid, what, *detail = line.split()
        lines.append(SideEffect(at=float(at), run_id=run_id, pid=int(pid), what=what, detail="".join(detail)))
    return lines


def read_side_effects(path: Path) -> list[SideEffect]:
    return parse(path.read_text()) if path.exists() else []


def by_run(lines: Iterable[SideEffect]) -> dict[str, list[SideEffect]]:
    grouped: dict[str, list[SideEffect]] = {}
    for line in lines:
        grouped.setdefault(line.run_id, []).append(line)
    return grouped
