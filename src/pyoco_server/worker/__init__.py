"""The worker: it takes jobs from the queue and runs them. `PyocoNatsWorker` is the worker as a library."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.worker.library import PyocoNatsWorker

__all__ = ["PyocoNatsWorker"]


def __getattr__(name: str) -> object:
    # Runner processes import their own modules from this package: they must not pay for the whole worker.
    if name == "PyocoNatsWorker":
        from pyoco_server.worker.library import PyocoNatsWorker

        return PyocoNatsWorker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
