"""One page of a list of runs, and where the next one begins.

The promise, from an empty cursor to the end, whatever changes between the pages and whichever gateways give them:
a run that fitted when the paging began and did not change is shown exactly once; a run that changed and fits now is
shown at least once, in its newer state. Runs created meanwhile may be shown or not. There is an end, however busy the
runs are: the tail goes by ids, so a run that changes again and again cannot run away from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyoco_server.domain.queries.cursors import Place, Tail, Walk
from pyoco_server.ports import Listed, RunIndex, RunQuery, SearchPage


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Runs, each with the place behind it, and where the next page begins: None when this was the last one."""

    items: Sequence[tuple[Listed, Place]]
    next: Place | None

    def cut(self, length: int) -> Page:
        """The first runs of the page only; the others begin the next one."""
        return self if length >= len(self.items) else Page(items=self.items[:length], next=self.items[length - 1][1])


def page(index: RunIndex, query: RunQuery, place: Place) -> Page:
    """The runs of the query from this place on, at most as many as its limit."""
    match place:
        case Walk():
            return _walk(index, query, place)
        case Tail():
            return _tail(index, query, place)


def _walk(index: RunIndex, query: RunQuery, place: Walk) -> Page:
    found, unread = _found(index, replace(query, before=place.before))
    items = [(run, Walk(mark=place.mark, before=run.key)) for run in found]
    if unread is not None:
        return Page(items=items, next=Walk(mark=place.mark, before=unread))
    rest = replace(query, limit=query.limit - len(items))
    tail = _tail(index, rest, Tail(mark=place.mark, after="", upto=index.last_run_id()))
    here = {run.run_id for run, _ in items}
    return Page(
        items=[*items, *((run, behind) for run, behind in tail.items if run.run_id not in here)], next=tail.next
    )


def _found(index: RunIndex, query: RunQuery) -> SearchPage:
    if query.error is not None:
        return index.search(query)
    # One more than asked for: so the last page knows that it is the last.
    found = index.rows(replace(query, limit=query.limit + 1))
    return SearchPage(found[: query.limit], found[query.limit - 1].key if len(found) > query.limit else None)


def _tail(index: RunIndex, query: RunQuery, place: Tail) -> Page:
    more = replace(query, limit=query.limit + 1)
    found = index.changed(more, since=place.mark, after=place.after, upto=place.upto)
    items = [(run, Tail(mark=place.mark, after=run.run_id, upto=place.upto)) for run in found[: query.limit]]
    if len(found) <= query.limit:
        return Page(items=items, next=None)
    return Page(items=items, next=items[-1][1] if items else place)
