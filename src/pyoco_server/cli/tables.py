"""Tables as data: which columns a list has, which field each shows and how. Prints nothing.

Values come from a server: they may be missing, of a newer version, or named by an attacker.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyoco_server.cli.terminal_escape import escape_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Json = Mapping[str, Any]
Row = Sequence[str]
# A heading, a field or a function of the item, and how the value becomes text; `text` by default.
Column = tuple[str, str | Callable[[Json], object]] | tuple[str, str | Callable[[Json], object], Callable[[Any], str]]

STYLES = {
    **dict.fromkeys(("COMPLETED", "SUCCEEDED", "IDLE"), "green"),
    **dict.fromkeys(("CANCELLED", "CANCELED", "CANCELLING"), "yellow"),
    **dict.fromkeys(("RUNNING", "ACTIVE"), "cyan"),
    **dict.fromkeys(("PENDING", "STOPPED_GRACEFUL"), "dim"),
    **{"FAILED": "bold red", "DISCONNECTED": "red", "WAITING": "magenta"},
}
# An idle node has not started; an idle worker is healthy.
NODE_STYLES = STYLES | {"IDLE": "dim", "READY": ""}
STATUS_HEADS = ("STATUS", "STATE")
# Columns that are cut on a narrow terminal. Ids, statuses and times never are: a cut id is useless.
FLEXIBLE = ("ERROR", "DETAIL", "PROMPT", "TITLE", "FLOW", "GRAPH", "TASK", "TAGS", "LABELS", "LABEL", "FILES")
# Columns that are left out, in this order, where cutting is not enough.
DISPENSABLE = (
    *("HIDDEN", "FLOWS", "SHA256", "WORKER", "TAG", "SOURCE", "ACTOR", "UPDATED", "TIME", "MODIFIED"),
    *("TOOK", "CREATED", "DEADLINE", "SINCE", "ENABLED", "INSTRUMENT", "CHECKED"),
)
MIN_WIDTH = 8
GAP = 2


class Table:
    """The columns of a list, or the facts of one item."""

    def __init__(self, *columns: Column, styles: Mapping[str, str] = STYLES) -> None:
        self._columns = columns
        self.head = tuple(column[0] for column in columns)
        self.styles = styles

    def row(self, item: Json) -> Row:
        values = (item.get(field) if isinstance(field, str) else field(item) for _, field, *_ in self._columns)
        return tuple((*column[2:], text)[0](value) for column, value in zip(self._columns, values, strict=True))

    def facts(self, item: Json) -> list[tuple[str, str]]:
        """Names and values; missing values are left out."""
        return [(name, value) for name, value in zip(self.head, self.row(item), strict=True) if value != "-"]


def layout(
    head: Row, rows: Iterable[Row], styles: Mapping[str, str] = STYLES, room: int | None = None
) -> tuple[RichTable, int]:
    """The table to draw, and the width it needs; status and mark have the colour of the status.

    With `room`, flexible columns are cut and dispensable ones left out until a line fits. Ids stay whole even if it
    does not fit.
    """
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text

    cells = [head, *rows]
    widths = [max(cell_len(row[place]) for row in cells) for place in range(len(head))]
    kept = list(range(len(head))) if room is None else _kept(head, widths, room)
    drawn = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for place in kept:
        flexible = head[place] in FLEXIBLE
        least = min(widths[place], MIN_WIDTH) if flexible else widths[place]
        drawn.add_column(Text(head[place]), min_width=least, no_wrap=not flexible)
    for row in cells[1:]:
        status = next((cell for name, cell in zip(head, row, strict=True) if name in STATUS_HEADS), "")
        shown = [(row[place], styles.get(status, "") if head[place] in ("", *STATUS_HEADS) else "") for place in kept]
        drawn.add_row(*(Text(cell, style=style, no_wrap=True, overflow="ellipsis") for cell, style in shown))
    return drawn, max(room, _least(head, widths, kept)) if room is not None else sum(widths) + GAP * len(widths)


def _kept(head: Row, widths: Sequence[int], room: int) -> list[int]:
    kept = list(range(len(head)))
    for name in DISPENSABLE:
        if _least(head, widths, kept) <= room:
            break
        kept = [place for place in kept if head[place] != name]
    return kept


def _least(head: Row, widths: Sequence[int], kept: Sequence[int]) -> int:
    least = (min(widths[place], MIN_WIDTH) if head[place] in FLEXIBLE else widths[place] for place in kept)
    return sum(least) + GAP * len(kept)  # rich counts the padding of the last column, too


# --- values ---------------------------------------------------------------------------------------------------------


def text(value: object) -> str:
    """A value on one line; `-` if there is none."""
    if value is None or value == "" or value == []:
        return "-"
    if isinstance(value, list | tuple):
        return escape_line(",".join(str(one) for one in value))
    return escape_line(value)


def first_line(value: object) -> str:
    """The first line of an error, which may end with a traceback."""
    return text(value.lstrip().partition("\n")[0] if isinstance(value, str) else value)


def inline_json(value: Any) -> str:
    """JSON on one line; a string without quotes, `-` if there is nothing."""
    if value is None or value == {}:
        return "-"
    return escape_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def moment(value: object) -> str:
    """A time of the server, Unix seconds or RFC 3339, in the local time zone."""
    instant = _instant(value)
    return "-" if instant is None else instant.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def stamp(value: object) -> str:
    """A time for logs: UTC, with milliseconds."""
    instant = _instant(value)
    return "-" if instant is None else instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_sec(value: object) -> float | None:
    instant = _instant(value)
    return None if instant is None else instant.timestamp()


def _instant(value: object) -> datetime | None:
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value).astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return None


def duration(seconds: object) -> str:
    """Seconds with the two units that matter."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return "-"
    seconds = max(0.0, float(seconds))
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{rest:02}s"


def size(count: object) -> str:
    """A number of bytes in the unit that fits."""
    from rich.filesize import decimal

    valid = isinstance(count, int | float) and not isinstance(count, bool) and math.isfinite(count)
    return decimal(int(count)) if valid else "-"  # type: ignore[call-overload]  # checked above
