"""Cells in columns by the width they have on a terminal, where one character may take two places. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, set_cell_size

Row = Sequence[str]

# Columns that are cut when a terminal is too narrow; ids, statuses and times never are: a cut id is worth nothing.
FLEXIBLE = ("ERROR", "DETAIL", "PROMPT", "TITLE", "FLOW", "GRAPH", "TASK", "TAGS", "LABELS", "LABEL")
# Columns that are left out, in this order, where cutting is not enough: a line that goes on below is hard to read.
DISPENSABLE = (
    "HIDDEN",
    "FLOWS",
    "SHA256",
    "WORKER",
    "TAG",
    "SOURCE",
    "ACTOR",
    "UPDATED",
    "TIME",
    "MODIFIED",
    "TOOK",
    "CREATED",
    "DEADLINE",
    "SINCE",
)
MIN_WIDTH = 8
GAP = "  "


def aligned(head: Row, rows: Iterable[Row], room: int | None = None) -> list[list[str]]:
    """Head and rows with every cell padded to its column, except the last, which ends where its text ends.

    With `room` the flexible columns give way, in their order, until a line fits or they have no more to give. Where
    that cannot be enough, dispensable columns are left out first.
    """
    cells = [list(head), *(list(row) for row in rows)]
    widths = [max(cell_len(row[place]) for row in cells) for place in range(len(head))]
    if room is not None:
        kept = _kept(widths, head, room)
        cells, widths = [[row[place] for place in kept] for row in cells], [widths[place] for place in kept]
        _narrow(widths, cells[0], room)
    return [
        [_fit(cell, width) for cell, width in zip(row[:-1], widths[:-1], strict=True)] + [_cut(row[-1], widths[-1])]
        for row in cells
    ]


def _kept(widths: Sequence[int], head: Row, room: int) -> list[int]:
    """The places of the columns that stay: as many as can be made to fit."""
    least = [min(width, MIN_WIDTH) if name in FLEXIBLE else width for name, width in zip(head, widths, strict=True)]
    kept = list(range(len(head)))
    for name in DISPENSABLE:
        if sum(least[place] for place in kept) + len(GAP) * (len(kept) - 1) <= room:
            break
        kept = [place for place in kept if head[place] != name]
    return kept


def _narrow(widths: list[int], head: Row, room: int) -> None:
    for name in FLEXIBLE:
        excess = sum(widths) + len(GAP) * (len(widths) - 1) - room
        if excess <= 0:
            return
        if name in head:
            place = list(head).index(name)
            widths[place] = max(min(widths[place], MIN_WIDTH), widths[place] - excess)


def _fit(cell: str, width: int) -> str:
    return set_cell_size(_cut(cell, width), width)


def _cut(cell: str, width: int) -> str:
    return cell if cell_len(cell) <= width else f"{set_cell_size(cell, width - 1).rstrip()}…"
