"""Queries, pages and tokens of lists of jobs and of their labels. Lists nothing itself.

Jobs are listed by id, the newest first. An id begins with its creation time and never changes, so a position in such a
list is an id, and a token stays valid for ever and at every gateway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyoco_server.domain.ids import RunId, is_run_id
from pyoco_server.domain.queries.page_token import seal, unseal
from pyoco_server.domain.queries.query import Listed, Ranges

_BYTES = 16
# Foreign ids sort behind all of ours; they are longer, so the two are never confused.
_FOREIGN = bytes(_BYTES + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery(Ranges):
    """Which jobs to list; None and () mean any. Archived jobs are not listed; a job must have all `labels`.

    `status` holds statuses of runs. `before` is exclusive: pass the `following` of a page to get the next one.
    """

    limit: int = 50
    status: tuple[str, ...] = ()
    tenant_id: str | None = None
    labels: tuple[str, ...] = ()
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """The next jobs of a list. The work per page is bounded, so a page may be short or empty without being the last.

    `following` is the id for `before` of the next page; None at the end.
    """

    runs: Sequence[Listed]
    following: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQuery:
    """Which labels to list: those that begin with `prefix` and sort after `after`."""

    prefix: str = ""
    tenant_id: str | None = None
    after: str | None = None
    limit: int = 100


class LabelCount(NamedTuple):
    """A label, and how many unarchived runs have it."""

    label: str
    runs: int


def order_of(run_id: str) -> bytes:
    """The sort key of lists of jobs, the greatest first: the sixteen bytes of an id of ours."""
    return bytes.fromhex(run_id.replace("-", "")) if is_run_id(run_id) else _FOREIGN + run_id.encode()


def run_id_of(order: bytes) -> RunId:
    """The inverse of `order_of`."""
    if len(order) > _BYTES:
        return RunId(order[len(_FOREIGN) :].decode())
    digits = order.hex()
    return RunId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))


def encode_token(following: str, query: JobQuery | LabelQuery) -> str:
    """The `nextToken` that continues the list of `query` at this job id or label."""
    return seal(following, about=_about(query))


def decode_token(token: str, query: JobQuery | LabelQuery) -> str:
    """The inverse of `encode_token`; `InvalidListQuery` unless it was made for the same list. The limit may differ."""
    return unseal(token, str, about=_about(query), name="nextToken", restart="start without one")


def _about(query: JobQuery | LabelQuery) -> tuple[object, ...]:
    match query:
        case JobQuery():
            return ("jobs", sorted(set(query.status)), query.tenant_id, sorted(set(query.labels)), *query.given_ranges)
        case LabelQuery():
            return ("labels", query.prefix, query.tenant_id)
