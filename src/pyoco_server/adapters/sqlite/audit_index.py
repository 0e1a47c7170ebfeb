"""The index of the audit trail in SQLite, in a file of its own beside the run index. A cache: damage empties it."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from pyoco_server.adapters.sqlite.files import DAMAGE, READER_CACHE_KIB, connect, discard, make_private
from pyoco_server.domain.audit import AuditPlace, AuditQuery, AuditRecord
from pyoco_server.errors import IndexUnavailable
from pyoco_server.ports.audit import AuditPosition

SCHEMA_VERSION = 1
# One index per filter, in the order of pages: a page reads little more than it shows. A resource and a request have few
# records.
_SCHEMA = f"""
    CREATE TABLE audit (
        key TEXT PRIMARY KEY, at REAL NOT NULL, action TEXT NOT NULL, actor TEXT NOT NULL, resource TEXT NOT NULL,
        request_id TEXT, record BLOB NOT NULL
    );
    CREATE INDEX audit_at ON audit (at, key);
    CREATE INDEX audit_actor ON audit (actor, at, key);
    CREATE INDEX audit_action ON audit (action, at, key);
    CREATE INDEX audit_actor_action ON audit (actor, action, at, key);
    CREATE INDEX audit_resource ON audit (resource, at, key);
    CREATE INDEX audit_request ON audit (request_id, at, key) WHERE request_id IS NOT NULL;
    CREATE TABLE position (stream TEXT NOT NULL, sequence INTEGER NOT NULL);
    PRAGMA user_version = {SCHEMA_VERSION};
"""
_PUT = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET record = excluded.record"
_FEW = ("request_id", "resource")
_COLUMNS = (*_FEW, "actor", "action")

logger = logging.getLogger(__name__)


class SqliteAuditIndex:
    """See `ports.audit.AuditIndex`. The caller owns the file alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._is_damaged = False
        try:
            self._connection = _open(path)
        except (*DAMAGE, OSError) as damage:
            logger.warning("audit index unusable, rebuilding it", extra={"path": str(path), "reason": str(damage)})
            self._connection = _create(path)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def position(self) -> AuditPosition | None:
        if self._is_damaged:
            return None
        with self._using() as connection:
            found = connection.execute("SELECT stream, sequence FROM position").fetchone()
        return None if found is None else AuditPosition(*found)

    def reset(self) -> None:
        with self._lock:
            self._connection.close()
            self._connection = _create(self._path)
            self._is_damaged = False

    def apply(self, records: Sequence[AuditRecord], position: AuditPosition) -> None:
        with self._using() as connection, _transaction(connection):
            for record in records:
                _put(connection, record)
            connection.execute("DELETE FROM position")
            connection.execute("INSERT INTO position VALUES (?, ?)", position)

    def forget_before(self, at: float) -> None:
        with self._using() as connection:
            connection.execute("DELETE FROM audit WHERE at < ?", (at,))

    def page(self, query: AuditQuery, *, before: AuditPlace | None, limit: int) -> Sequence[AuditRecord]:
        given = [(name, getattr(query, name)) for name in _COLUMNS if getattr(query, name) is not None]
        # With a plus SQLite does not look for an index: the first of these has the fewest records.
        is_few = bool(given) and given[0][0] in _FEW
        conditions: list[tuple[str, tuple[Any, ...]]] = [
            (f"{'+' if is_few and place else ''}{name} = ?", (value,)) for place, (name, value) in enumerate(given)
        ]
        if query.since is not None:
            conditions.append(("at >= ?", (query.since,)))
        if query.until is not None:
            conditions.append(("at < ?", (query.until,)))
        if before is not None:
            conditions.append(("(at, key) < (?, ?)", before))
        where = " AND ".join(condition for condition, _ in conditions) or "TRUE"
        values = [value for _, some in conditions for value in some]
        # Only names of columns are put into the statement.
        statement = f"SELECT record FROM audit WHERE {where} ORDER BY at DESC, key DESC LIMIT ?"  # noqa: S608
        with self._using() as connection:
            rows = connection.execute(statement, (*values, limit)).fetchall()
        return [msgspec.json.decode(row[0], type=AuditRecord) for row in rows]

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._is_damaged:
                raise IndexUnavailable
            try:
                yield self._connection
            except DAMAGE as damage:
                self._is_damaged = True
                logger.warning("audit index damaged", extra={"path": str(self._path), "reason": str(damage)})
                raise IndexUnavailable from damage


def _put(connection: sqlite3.Connection, record: AuditRecord) -> None:
    if record.outcome == "void":
        connection.execute("DELETE FROM audit WHERE key = ?", (record.key,))
        return
    known = connection.execute("SELECT record FROM audit WHERE key = ?", (record.key,)).fetchone()
    if known is not None:
        first = msgspec.json.decode(known[0], type=AuditRecord)
        record = msgspec.structs.replace(first, outcome=record.outcome)
    data = msgspec.json.encode(record)
    columns = (record.key, record.at, record.action, record.actor_id, record.resource_id, record.request_id, data)
    connection.execute(_PUT, columns)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _open(path: Path) -> sqlite3.Connection:
    make_private(path)
    connection = connect(path, READER_CACHE_KIB)
    with closing(connection.execute("PRAGMA user_version")) as found:
        version = found.fetchone()
    if version == (SCHEMA_VERSION,) and connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
        return connection
    connection.close()
    return _create(path)


def _create(path: Path) -> sqlite3.Connection:
    discard(path)
    make_private(path)
    connection = connect(path, READER_CACHE_KIB)
    connection.executescript(_SCHEMA)
    return connection
