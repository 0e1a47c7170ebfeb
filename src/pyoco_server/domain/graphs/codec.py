"""Stored graphs ⇄ bytes: the document, its version, and who changed it when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from pyoco_server.domain.graphs.document import GraphDocument, from_plain, to_plain

SCHEMA_VERSION = 1
_YEAR_10000 = 253_402_300_800


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGraph:
    """A graph of a tenant. `version` counts its changes from 1; `revision` is the store's, to compare-and-set on."""

    graph_id: str
    version: int
    document: GraphDocument
    updated_at: float
    updated_by: str | None
    revision: int = 0


class UnreadableGraph(ValueError):
    """The bytes are not a graph of a known version."""


def encode(graph: StoredGraph) -> bytes:
    """The stored form; the revision is the store's own and not part of it."""
    return orjson.dumps(
        {
            "schemaVersion": SCHEMA_VERSION,
            "graphId": graph.graph_id,
            "version": graph.version,
            "updatedAt": graph.updated_at,
            "updatedBy": graph.updated_by,
            "document": to_plain(graph.document),
        }
    )


def decode(data: bytes, graph_id: str, revision: int) -> StoredGraph:
    """The graph that was stored under this id; `UnreadableGraph` if it is not one."""
    try:
        return _graph(orjson.loads(data), graph_id, revision)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UnreadableGraph(f"not a graph: {type(error).__name__}: {error}") from error


def _graph(plain: Mapping[str, Any], graph_id: str, revision: int) -> StoredGraph:
    if plain["schemaVersion"] != SCHEMA_VERSION or plain["graphId"] != graph_id:
        raise ValueError("another version, or another graph")
    version, updated_at, updated_by = plain["version"], plain["updatedAt"], plain["updatedBy"]
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ValueError("version must be an integer from 1")
    if not 0 <= updated_at < _YEAR_10000 or not isinstance(updated_by, str | None):
        raise ValueError("updatedAt must be a time before the year 10000, updatedBy a text or null")
    return StoredGraph(
        graph_id=graph_id,
        version=version,
        document=from_plain(plain["document"]),
        updated_at=float(updated_at),
        updated_by=updated_by,
        revision=revision,
    )
