"""What lists of strategies ask for and show."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from pyoco_server.domain.pdca.strategies import Health, Strategy


class SortBy(Enum):
    """The fields by which lists are sorted; strategies with equal fields are sorted by id."""

    LAST_CHECKED_AT = "last_checked_at"
    ID = "id"
    INSTRUMENT = "instrument"
    HEALTH = "health"

    __hash__ = object.__hash__


class StrategyQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which strategies to list; an empty part admits all. `enabled`: None is any.

    `text` is a substring of id or title, in any case and without wildcards. A strategy that was never checked comes
    before all others; `descending` is exactly the reverse.
    """

    text: str = ""
    tags_any: tuple[str, ...] = ()
    health: tuple[Health, ...] = ()
    instruments: tuple[str, ...] = ()
    enabled: bool | None = None
    sort_by: SortBy = SortBy.LAST_CHECKED_AT
    descending: bool = True
    offset: int = 0
    limit: int = 50


class ListedStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """A registered strategy with its newest result, as far as the runs of its results are retained."""

    strategy: Strategy
    last_health: Health = Health.UNKNOWN
    last_checked_at: float | None = None


class StrategyPage(msgspec.Struct, frozen=True, kw_only=True):
    """One page, and the exact number of all that match."""

    items: Sequence[ListedStrategy]
    total: int
