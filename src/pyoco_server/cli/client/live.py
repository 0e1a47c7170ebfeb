"""Draws a run on a terminal while it runs: its tasks with time and progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from pyoco_server.cli.client.run_view import TASK_HEAD, TERMINAL, fit_rows, run_status, task_rows, took_sec
from pyoco_server.cli.stdout import console
from pyoco_server.cli.tables import STYLES, Json, duration, layout, text

# Lines that are not tasks: the run, the head of the table, the count of hidden tasks, the prompt.
OTHER_LINES = 4
FRAMES_PER_SEC = 10


@dataclass(slots=True)
class LiveView:
    """The newest snapshot, and the server's clock as far as its events tell it."""

    clock: Callable[[], float] = time.time
    styles: Mapping[str, str] = field(default_factory=lambda: STYLES)
    head: tuple[str, ...] = TASK_HEAD
    _ahead_sec: float = 0.0
    _run: Json = field(default_factory=dict)

    def show(self, run: Json, ts: float | None) -> None:
        """Replace the snapshot; `ts` is its time by the server's clock."""
        self._run = run
        if ts is not None:
            self._ahead_sec = ts - self.clock()

    def __rich_console__(self, board: Console, options: ConsoleOptions) -> RenderResult:
        # After the end nothing moves any more.
        now = None if self._run.get("status") in TERMINAL else self.clock() + self._ahead_sec
        yield self._headline(now)
        rows, left_out = fit_rows(task_rows(self._run, now), max(1, options.max_height - OTHER_LINES))
        if rows:
            yield layout(self.head, rows, self.styles, options.max_width)[0]
        if left_out:
            counts = ", ".join(f"{count} {text(status)}" for status, count in left_out.items())
            yield Text(f"… and {counts}", style="dim")

    def _headline(self, now: float | None) -> Text:
        status = run_status(self._run)
        line = Text(f"{text(self._run.get('flow_name'))} ")
        line.append(status, style=self.styles.get(status, ""))
        taken = took_sec(self._run, now)
        if taken is not None:
            line.append(f"  {duration(taken)}")
        if self._run.get("worker_id"):
            line.append(f"  on {text(self._run['worker_id'])}", style="dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        return line


@contextmanager
def live_view(
    styles: Mapping[str, str] = STYLES, head: tuple[str, ...] = TASK_HEAD
) -> Iterator[Callable[[Any, float | None], None]]:
    """A live view inside the block; its last frame stays on the terminal."""
    view = LiveView(styles=styles, head=head)
    with Live(view, console=console(), refresh_per_second=FRAMES_PER_SEC, vertical_overflow="crop") as drawn:

        def show(run: Any, ts: float | None) -> None:
            view.show(run, ts)
            drawn.refresh()

        yield show
