"""Words for lists of jobs and of their labels: what is asked for and found, and in which order. It lists nothing.

Jobs are listed by id, the newest first. An id begins with its time and never changes, so a place in such a list is an
id, and stays where it is whatever happens to the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyoco_server.domain.ids import RunId, is_run_id
from pyoco_server.domain.queries.query import Listed
from pyoco_server.domain.queries.rows import RunRow

_BYTES = 16
# Ids that are none of ours come behind all of ours, and are never taken for one: they are longer.
_FOREIGN = bytes(_BYTES + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Which jobs to list; None and () mean any. Archived ones stay out; of `labels` a job has all.

    `status` holds statuses of runs, of which a job has one. `before` leaves itself out: with what a page says is
    `following` the next one follows.
    """

    limit: int = 50
    status: tuple[str, ...] = ()
    tenant_id: str | None = None
    labels: tuple[str, ...] = ()
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """The next jobs of a list. The work for one page is bounded, so it may be short, even empty, and not the last.

    `following` is the id to go on `before`; None at the end.
    """

    runs: Sequence[Listed]
    following: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQuery:
    """Which labels to list: those that begin with `prefix` and come behind `after`."""

    prefix: str = ""
    tenant_id: str | None = None
    after: str | None = None
    limit: int = 100


class LabelCount(NamedTuple):
    """A label, and how many unarchived runs have it."""

    label: str
    runs: int


def order_of(run_id: str) -> bytes:
    """What lists of jobs are in the order of, the greatest first: of an id of ours its sixteen bytes."""
    return bytes.fromhex(run_id.replace("-", "")) if is_run_id(run_id) else _FOREIGN + run_id.encode()


def run_id_of(order: bytes) -> RunId:
    """The id that `order_of` stands for."""
    if len(order) > _BYTES:
        return RunId(order[len(_FOREIGN) :].decode())
    digits = order.hex()
    return RunId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def matches(row: RunRow, query: JobQuery) -> bool:
    """Whether the query asks for this row; its limit is another matter."""
    return (
        not row.archived
        and (not query.status or row.status in query.status)
        and query.tenant_id in (None, row.tenant_id)
        and set(query.labels) <= set(row.labels)
        and (query.before is None or order_of(row.run_id) < order_of(query.before))
    )


def is_listed(label: str, query: LabelQuery) -> bool:
    """Whether the query asks for this label, of a run of its tenant."""
    return label.startswith(query.prefix) and (query.after is None or label > query.after)
