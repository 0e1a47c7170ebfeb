"""Runs into drawers, inside the caller's transaction and by difference: one per label of a tenant, one per shelf.

A run that goes from one status to the next moves from shelf to shelf, and the drawers of its labels, which may be many,
stay as they are. Archived runs are in no drawer.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from pyoco_server.adapters.sqlite.cells import inserted_id
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.jobs import order_of
from pyoco_server.domain.queries.query import labels_of

_DRAWER = "SELECT drawer FROM drawers WHERE tenant_id = ? AND label = ?"
_NEW_DRAWER = "INSERT INTO drawers (tenant_id, label) VALUES (?, ?)"
_TERMS = "SELECT terms FROM families WHERE family = ?"
_PUT = "INSERT INTO postings (drawer, run) VALUES (?, ?)"
_MOVE = "UPDATE postings SET drawer = ? WHERE drawer = ? AND run = ?"
_REMOVE = "DELETE FROM postings WHERE drawer = ? AND run = ?"
_COUNT = "UPDATE drawers SET runs = runs + ? WHERE drawer = ?"
_CLEAR_EMPTY = "DELETE FROM drawers WHERE drawer = ? AND runs = 0"


class Filing(NamedTuple):
    """What decides which drawers a run is in. `labels` are looked up in its family when they are not at hand."""

    family: int
    shelf: int
    tenant_id: str
    archived: bool
    labels: tuple[str, ...] | None = None

    @property
    def by_label(self) -> tuple[object, ...]:
        return self.family, self.tenant_id, self.archived


def of_shelf(shelf: int) -> int:
    """The drawer of all runs on the shelf: it needs no row, for the shelf counts them."""
    return -shelf


@dataclass(slots=True)
class DrawerChanges:
    """What a batch changes of the drawers."""

    filings: list[tuple[RunId, Filing | None, Filing | None]] = field(default_factory=list)
    puts: list[tuple[int, bytes]] = field(default_factory=list)
    moves: list[tuple[int, int, bytes]] = field(default_factory=list)
    removals: list[tuple[int, bytes]] = field(default_factory=list)

    def change(self, run_id: RunId, before: Filing | None, after: Filing | None) -> None:
        """The run, filed like `before` (None: not at all), is filed like `after` now."""
        self.filings.append((run_id, before, after))

    def carry_out(self, writer: sqlite3.Connection) -> None:
        """To be done while the families of `before` are still there."""
        drawers = _Drawers(writer)
        for run_id, before, after in self.filings:
            if before is not None and after is not None and before.by_label == after.by_label:
                self._shift(run_id, before, after)
            else:
                self._differ(order_of(run_id), drawers.of(before), drawers.of(after))
        # In the order of the table: a page of it is then written to once for all that goes there.
        writer.executemany(_REMOVE, sorted(self.removals))
        writer.executemany(_MOVE, self.moves)
        writer.executemany(_PUT, sorted(self.puts))
        counted = Counter(drawer for drawer, _ in self.puts)
        counted.subtract(drawer for drawer, _ in self.removals)
        writer.executemany(_COUNT, [(by, drawer) for drawer, by in counted.items() if by])
        writer.executemany(_CLEAR_EMPTY, [(drawer,) for drawer, by in counted.items() if by < 0])

    def _shift(self, run_id: RunId, before: Filing, after: Filing) -> None:
        if before.shelf != after.shelf and not after.archived:
            self.moves.append((of_shelf(after.shelf), of_shelf(before.shelf), order_of(run_id)))

    def _differ(self, run: bytes, before: list[int], after: list[int]) -> None:
        self.removals += [(drawer, run) for drawer in before if drawer not in after]
        self.puts += [(drawer, run) for drawer in after if drawer not in before]


class _Drawers:
    """The drawers of one batch, each looked up once."""

    def __init__(self, writer: sqlite3.Connection) -> None:
        self._writer = writer
        self._known: dict[tuple[str, str], int] = {}

    def of(self, filing: Filing | None) -> list[int]:
        """Those that a run filed like this is in, each once."""
        if filing is None or filing.archived:
            return []
        labels = self._labels(filing.family) if filing.labels is None else filing.labels
        return [of_shelf(filing.shelf), *[self._drawer((filing.tenant_id, label)) for label in labels]]

    def _labels(self, family: int) -> Iterable[str]:
        (terms,) = self._writer.execute(_TERMS, (family,)).fetchone()
        return labels_of(orjson.loads(terms))

    def _drawer(self, key: tuple[str, str]) -> int:
        drawer = self._known.get(key)
        if drawer is None:
            found = self._writer.execute(_DRAWER, key).fetchone()
            drawer = self._known[key] = int(found[0]) if found else inserted_id(self._writer.execute(_NEW_DRAWER, key))
        return drawer
