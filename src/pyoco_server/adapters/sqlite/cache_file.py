"""A SQLite file as a cache: one connection that writes and one that reads beside it, for any thread.

When the file turns out to be damaged, every use raises `IndexUnavailable` until it is replaced by an empty one.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyoco_server.adapters.sqlite.files import (
    DAMAGE,
    Connections,
    FileLock,
    Schema,
    close_file,
    lock_file,
    open_file,
    start_empty,
)
from pyoco_server.errors import IndexUnavailable

logger = logging.getLogger(__name__)


class CacheFile:
    """Transactions on a file that this process has for itself."""

    def __init__(self, lock: FileLock, schema: Schema, connections: Connections) -> None:
        self._lock = lock
        self._schema = schema
        self._writer, self._reader = connections
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        self._damaged = False

    @classmethod
    def open(cls, path: Path, schema: Schema) -> CacheFile:
        """The file, or an empty one; never fails because of the file's content or another user of it."""
        lock = lock_file(path)
        return cls(lock, schema, open_file(lock.path, schema))

    @property
    def path(self) -> Path:
        """The file in use; not the requested one when another process has that."""
        return self._lock.path

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            if self._damaged:
                self._reader.close()
                self._writer.close()
            else:
                close_file(self.path, Connections(self._writer, self._reader))
            self._lock.release()

    @contextmanager
    def replacing(self) -> Iterator[sqlite3.Connection]:
        """Replace the file by an empty one, and write its first rows. There are no readers meanwhile."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
            self._writer, self._reader = start_empty(self.path, self._schema)
            yield self._writer
            self._damaged = False

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that writes."""
        with self._write_lock, self._transaction(self._writer, "BEGIN IMMEDIATE"):
            yield self._writer

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A transaction that reads: all of its statements see the same moment."""
        with self._read_lock, self._transaction(self._reader, "BEGIN"):
            yield self._reader

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection, begin: str) -> Iterator[None]:
        if self._damaged:
            raise IndexUnavailable
        try:
            connection.execute(begin)
            try:
                yield
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except DAMAGE as error:
            self._damaged = True
            logger.exception("index damaged, rebuilding it", extra={"path": str(self.path)})
            raise IndexUnavailable(f"the run index is damaged ({error}) and is being rebuilt") from error
