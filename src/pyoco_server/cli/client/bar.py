"""A bar for what takes a while, on the terminal of a person; programs see nothing of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FRAMES_PER_SEC = 10


@contextmanager
def progress_bar(what: str, then: str | None = None) -> Iterator[Callable[[int, int | None], None] | None]:
    """A function that is told how much is done of how much; None where stderr is no terminal: nobody would see the bar.

    It is gone when the block ends: what came of it is said by others. `then` is what goes on when all of it is done: a
    full bar that stays would look stuck.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, refresh_per_second=FRAMES_PER_SEC) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, description=then if then and done == total else what)

        yield show
