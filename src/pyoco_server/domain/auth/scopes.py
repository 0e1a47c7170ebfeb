"""What a caller may be allowed to do. A scope holds for a thing in whatever dialect it is spoken of."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from pyoco_server.errors import InvalidUsage


class Scope(Enum):
    """One permission; `admin` is all of them, for every tenant."""

    RUNS_READ = "runs:read"
    RUNS_WRITE = "runs:write"
    RUNS_CANCEL = "runs:cancel"
    WORKERS_READ = "workers:read"
    WORKERS_WRITE = "workers:write"
    WHEELS_READ = "wheels:read"
    WHEELS_WRITE = "wheels:write"
    DLQ_READ = "dlq:read"
    DLQ_WRITE = "dlq:write"
    GRAPHS_WRITE = "graphs:write"
    NODES_WORK = "nodes:work"
    METRICS_READ = "metrics:read"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)
# What somebody who uses the service needs; changing what others share has to be asked for.
USUAL_SCOPES = frozenset({Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.RUNS_CANCEL, Scope.WORKERS_READ, Scope.METRICS_READ})

_BY_WORD = {scope.value: scope for scope in Scope}


def known_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """Those of the words that are scopes of ours; a token may speak of other services too."""
    return frozenset(_BY_WORD[word] for word in words if word in _BY_WORD)


def parse_scopes(text: str) -> frozenset[Scope]:
    """Scopes joined by commas, as somebody typed them: a word that is none is a mistake."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    strange = next((word for word in words if word not in _BY_WORD), None)
    if strange is not None or not words:
        said = f"{strange!r} is no scope" if strange is not None else "no scope is given"
        raise InvalidUsage(f"{said}; accepted: {', '.join(_BY_WORD)} (for example: --scopes runs:read,runs:write)")
    return known_scopes(words)


def in_words(scopes: Iterable[Scope]) -> list[str]:
    """The scopes as they are written, in the order in which they stand above."""
    chosen = set(scopes)
    return [scope.value for scope in Scope if scope in chosen]
