"""Counted requests and the results of strategies in a SQLite file of their own; a damaged one is rebuilt."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from pyoco_server.adapters.sqlite.cache_file import CacheFile
from pyoco_server.adapters.sqlite.files import RESULT_SCHEMA
from pyoco_server.adapters.sqlite.statements import json_array
from pyoco_server.domain.ids import NodeId, RunId
from pyoco_server.domain.pdca.counting import KPIS, Counted, CountedBatch, CountedRequest
from pyoco_server.domain.pdca.ids import StrategyId
from pyoco_server.domain.pdca.strategies import Health, StoredResult, StrategyResult
from pyoco_server.domain.pdca.strategy_table import Latest
from pyoco_server.errors import IndexUnavailable

_PUT_REQUEST = """
    INSERT INTO requests (run_id, tenant_id, version, last_update, canceling, ended_at) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (run_id) DO UPDATE SET version = excluded.version, last_update = excluded.last_update,
        canceling = excluded.canceling, ended_at = excluded.ended_at
    WHERE excluded.version > version
    RETURNING request
"""
_PUT_LATEST = """
    INSERT OR REPLACE INTO latest SELECT tenant_id, strategy, checked_at, health FROM results
    WHERE tenant_id = ? AND strategy = ? ORDER BY checked_at DESC, run_id DESC, node_id DESC LIMIT 1
    RETURNING checked_at, health
"""
_RESULTS = """
    SELECT results.run_id, node_id, checked_at, health, winrate, sharpe, max_dd, content
    FROM results JOIN batches USING (request, node_id)
    WHERE tenant_id = ? AND strategy = ? AND checked_at >= ? AND checked_at <= ?
    ORDER BY checked_at DESC, results.run_id DESC, node_id DESC LIMIT ?
"""
_ALWAYS = float("-inf"), float("inf")

_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(CountedBatch).decode


class SqliteStrategyResults:
    """See `ports.StrategyResults`."""

    def __init__(self, file: CacheFile) -> None:
        self._file = file

    @classmethod
    def open(cls, path: Path) -> SqliteStrategyResults:
        """The results in this file, or none; never fails because of the file's content or another user of it."""
        return cls(CacheFile.open(path, RESULT_SCHEMA))

    def close(self) -> None:
        self._file.close()

    def stream(self) -> str | None:
        try:
            with self._file.writing() as writer:
                found = writer.execute("SELECT created FROM stream").fetchone()
        except IndexUnavailable:
            return None
        return None if found is None else str(found[0])

    def reset(self, stream: str) -> None:
        with self._file.replacing() as writer:
            writer.execute("INSERT INTO stream VALUES (1, ?)", (stream,))

    def load(self, run_id: RunId) -> CountedRequest | None:
        with self._file.reading() as reader:
            found = reader.execute(
                "SELECT request, tenant_id, version, last_update, canceling, ended_at FROM requests WHERE run_id = ?",
                (run_id,),
            ).fetchone()
            if found is None:
                return None
            request, tenant_id, version, last_update, canceling, ended_at = found
            batches = reader.execute(
                "SELECT node_id, content FROM batches WHERE request = ? ORDER BY length(node_id), node_id", (request,)
            )
            return CountedRequest(
                run_id=run_id,
                tenant_id=tenant_id or None,
                version=version,
                last_update=last_update,
                is_canceling=bool(canceling),
                ended_at=ended_at,
                batches={NodeId(node_id): _read_batch(content) for node_id, content in batches},
            )

    def versions(self, run_ids: Sequence[RunId]) -> Mapping[RunId, int]:
        with self._file.reading() as reader:
            found = reader.execute(
                "SELECT run_id, version FROM requests WHERE run_id IN (SELECT value FROM json_each(?))",
                (json_array(run_ids),),
            )
            return {RunId(run_id): version for run_id, version in found}

    def save(self, counted: Counted) -> Sequence[Latest]:
        request = counted.request
        tenant = request.tenant_id or ""
        with self._file.writing() as writer:
            stored = writer.execute(
                _PUT_REQUEST,
                (
                    request.run_id,
                    tenant,
                    request.version,
                    request.last_update,
                    int(request.is_canceling),
                    request.ended_at,
                ),
            ).fetchall()
            if not stored:
                return ()
            number = stored[0][0]
            batches = [(number, node_id, _encode(request.batches[node_id])) for node_id in counted.changed]
            writer.executemany("INSERT OR REPLACE INTO batches VALUES (?, ?, ?)", batches)
            before = _remove_results(writer, number, counted.changed)
            rows = [
                (
                    tenant,
                    result.strategy,
                    request.batches[node_id].ended_at,
                    request.run_id,
                    node_id,
                    number,
                    result.health.value,
                    *(result.kpi.get(name) for name in KPIS),
                )
                for node_id, results in counted.changed.items()
                for result in results
            ]
            writer.executemany("INSERT INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            return _renew_latest(writer, tenant, before | {row[1] for row in rows})

    def remove(self, run_id: RunId) -> Sequence[Latest]:
        with self._file.writing() as writer:
            found = writer.execute("SELECT request, tenant_id FROM requests WHERE run_id = ?", (run_id,)).fetchone()
            if found is None:
                return ()
            number, tenant = found
            affected = writer.execute("SELECT DISTINCT strategy FROM results WHERE request = ?", (number,)).fetchall()
            for table in ("results", "batches", "requests"):
                writer.execute(f"DELETE FROM {table} WHERE request = ?", (number,))  # noqa: S608 — names of ours
            return _renew_latest(writer, tenant, {strategy for (strategy,) in affected})

    def ended_before(self, at: float, limit: int) -> Sequence[RunId]:
        with self._file.reading() as reader:
            found = reader.execute(
                "SELECT run_id FROM requests WHERE ended_at < ? ORDER BY ended_at, run_id LIMIT ?", (at, limit)
            )
            return [RunId(run_id) for (run_id,) in found]

    def latest(self) -> Iterator[Latest]:
        with self._file.reading() as reader:
            found = reader.execute("SELECT tenant_id, strategy, checked_at, health FROM latest").fetchall()
        return (Latest(tenant or None, strategy, at, Health(health)) for tenant, strategy, at, health in found)

    def results(
        self,
        tenant_id: str | None,
        strategy_id: StrategyId,
        *,
        checked_from: float | None = None,
        checked_to: float | None = None,
        limit: int,
    ) -> Sequence[StoredResult]:
        first = _ALWAYS[0] if checked_from is None else checked_from
        last = _ALWAYS[1] if checked_to is None else checked_to
        with self._file.reading() as reader:
            found = reader.execute(_RESULTS, (tenant_id or "", strategy_id, first, last, limit))
            return [
                StoredResult(
                    request_id=RunId(run_id),
                    node_id=NodeId(node_id),
                    checked_at=checked_at,
                    result=StrategyResult(
                        strategy=strategy_id,
                        health=Health(health),
                        kpi={name: value for name, value in zip(KPIS, kpis, strict=True) if value is not None},
                    ),
                    artifacts=_read_batch(content).artifacts,
                )
                for run_id, node_id, checked_at, health, *kpis, content in found
            ]

    def averages(self, tenant_id: str | None, strategy_id: StrategyId, *, checked_from: float) -> Mapping[str, float]:
        with self._file.reading() as reader:
            found = reader.execute(
                "SELECT avg(winrate), avg(sharpe), avg(max_dd) FROM results"
                " WHERE tenant_id = ? AND strategy = ? AND checked_at >= ?",
                (tenant_id or "", strategy_id, checked_from),
            ).fetchone()
            # The sum of finite numbers may be none.
            return {
                name: value
                for name, value in zip(KPIS, found, strict=True)
                if value is not None and math.isfinite(value)
            }


def _remove_results(writer: sqlite3.Connection, number: int, nodes: Iterable[NodeId]) -> set[str]:
    """Remove the results of these batches, and return their strategies."""
    removed: set[str] = set()
    for node_id in nodes:
        found = writer.execute(
            "DELETE FROM results WHERE request = ? AND node_id = ? RETURNING strategy", (number, node_id)
        )
        removed.update(strategy for (strategy,) in found.fetchall())
    return removed


def _renew_latest(writer: sqlite3.Connection, tenant: str, strategies: set[str]) -> list[Latest]:
    """Make the newest results of these strategies follow their results."""
    news = []
    for strategy in sorted(strategies):
        newest = writer.execute(_PUT_LATEST, (tenant, strategy)).fetchall()
        if not newest:
            writer.execute("DELETE FROM latest WHERE tenant_id = ? AND strategy = ?", (tenant, strategy))
        checked_at, health = newest[0] if newest else (None, Health.UNKNOWN.value)
        news.append(Latest(tenant or None, StrategyId(strategy), checked_at, Health(health)))
    return news


def _read_batch(content: bytes) -> CountedBatch:
    try:
        return _decode_batch(content)
    except msgspec.MsgspecError as error:
        raise sqlite3.DatabaseError(f"a batch cannot be read: {error}") from error
