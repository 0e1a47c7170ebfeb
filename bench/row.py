"""A row of the table and its budget."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.journal import Journal

CONNECTIONS = (1, 16, 64)
LOAD_CLIENTS = ("wrk", "built-in")
SYNC_WORDS = {"interval": "buffered", "always": "fsynced"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The required value of a row; `holds` returns None while a figure is missing."""

    text: str
    holds: Callable[[Journal], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; `key` is its name in the JSON output and stays the same between versions."""

    key: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    budget: Budget | None = None


def higher(key: str, title: str, unit: str, budget: Budget | None = None) -> Row:
    """A row of which a higher figure is better."""
    return Row(key=key, title=title, unit=unit, better="higher", budget=budget)


def lower(key: str, title: str, unit: str, budget: Budget | None = None) -> Row:
    """A row of which a lower figure is better."""
    return Row(key=key, title=title, unit=unit, better="lower", budget=budget)


def at_most(key: str, value: float, unit: str) -> Budget:
    def holds(journal: Journal) -> bool | None:
        ours = journal.median("ours", key)
        return None if ours is None else ours <= value

    return Budget(text=f"≤ {value:g} {unit}", holds=holds)


def at_least(key: str, value: float, unit: str) -> Budget:
    def holds(journal: Journal) -> bool | None:
        ours = journal.median("ours", key)
        return None if ours is None else ours >= value

    return Budget(text=f"≥ {value:g} {unit}", holds=holds)


def times_the_peer(key: str, factor: float) -> Budget:
    def holds(journal: Journal) -> bool | None:
        ours, peer = journal.median("ours", key), journal.median("peer", key)
        return None if ours is None or peer is None else ours >= factor * peer

    return Budget(text=f"≥ {factor:g} × peer", holds=holds)


def rate_and_share_of_bare(key: str, rate: float, connections: int, share: float) -> Budget:
    """The faster load client sets the figure of the bare framework, which is the stricter comparison."""

    def holds(journal: Journal) -> bool | None:
        ours = journal.median("ours", key)
        bare = [journal.median("limit", f"bare.{client}.{connections}") or 0.0 for client in LOAD_CLIENTS]
        return None if ours is None or not any(bare) else ours >= rate and ours >= share * max(bare)

    return Budget(text=f"≥ {rate:,.0f}/s and ≥ {share:g} × bare framework", holds=holds)
