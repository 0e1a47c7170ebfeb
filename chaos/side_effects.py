"""Reads what the flows themselves wrote down: the only account of what was executed that does not come from us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A flow said that it began, goes on, saw these wheels, or ended with so many lines printed, in a process."""

    at: float
    run_id: str
    pid: int
    what: str
    detail: str = ""


def parse(text: str) -> list[Line]:
    lines = []
    for line in text.splitlines():
        at, run_id, pid, what, *detail = line.split()
        lines.append(Line(at=float(at), run_id=run_id, pid=int(pid), what=what, detail="".join(detail)))
    return lines


def read(path: Path) -> list[Line]:
    return parse(path.read_text()) if path.exists() else []


def by_run(lines: Iterable[Line]) -> dict[str, list[Line]]:
    grouped: dict[str, list[Line]] = {}
    for line in lines:
        grouped.setdefault(line.run_id, []).append(line)
    return grouped
