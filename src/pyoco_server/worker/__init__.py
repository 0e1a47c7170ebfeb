"""The worker: pulls jobs from the queue and runs them. `PyocoNatsWorker` is the worker as a library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.worker.supervisor.library import PyocoNatsWorker

__all__ = ["PyocoNatsWorker"]


def __getattr__(name: str) -> object:
    # Lazy: runner processes import modules of this package and must not load the whole worker.
    if name == "PyocoNatsWorker":
        from pyoco_server.worker.supervisor.library import PyocoNatsWorker

        return PyocoNatsWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
