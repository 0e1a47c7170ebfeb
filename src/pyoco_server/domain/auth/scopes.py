"""The permissions of callers. A scope applies to a resource in every API that exposes it."""

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
    PDCA_READ = "pdca:read"
    PDCA_RECHECK = "pdca:recheck"
    PDCA_RECHECK_ALL = "pdca:recheck_all"
    PDCA_DOWNLOAD = "pdca:download"
    PDCA_ADMIN = "pdca:admin"
    ADMIN = "admin"


EVERY_SCOPE = frozenset(Scope)
# For ordinary users; scopes that change shared resources must be granted explicitly.
USUAL_SCOPES = frozenset({Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.RUNS_CANCEL, Scope.WORKERS_READ, Scope.METRICS_READ})

_BY_NAME = {scope.value: scope for scope in Scope}


def known_scopes(words: Iterable[str]) -> frozenset[Scope]:
    """The known scopes among the names; a token may also name scopes of other services."""
    return frozenset(_BY_NAME[word] for word in words if word in _BY_NAME)


def parse_scopes(text: str) -> frozenset[Scope]:
    """Comma-separated scopes from the command line; an unknown one is an error."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = next((word for word in words if word not in _BY_NAME), None)
    if unknown is not None or not words:
        problem = f"{unknown!r} is not a scope" if unknown is not None else "no scope is given"
        raise InvalidUsage(f"{problem}; accepted: {', '.join(_BY_NAME)} (for example: --scopes runs:read,runs:write)")
    return known_scopes(words)


def scope_names(scopes: Iterable[Scope]) -> list[str]:
    """The names of the scopes, in the order of their definition."""
    chosen = set(scopes)
    return [scope.value for scope in Scope if scope in chosen]
