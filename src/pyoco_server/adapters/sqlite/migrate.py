"""Opens the file of the index, or starts an empty one. Nothing is migrated or repaired: a cache is filled again.

One process per file. Who comes second takes the next free name beside it (`runs-2.db`, `runs-3.db`, …), so every
gateway has an index of its own; where no name can be had, a temporary folder serves until the end of the process.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

SCHEMA_VERSION = 5
MAX_FILES = 16  # gateways on one data folder
WRITER_CACHE_KIB = 16_384
READER_CACHE_KIB = 8_192
_BESIDES = ("", "-wal", "-shm", "-journal")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A file that is ours until `release`: the lock goes with the process, however it ends."""

    path: Path
    lock: sqlite3.Connection
    temporary: bool

    def release(self) -> None:
        self.lock.close()
        if self.temporary:
            shutil.rmtree(self.path.parent, ignore_errors=True)


def claim(path: Path) -> Claim:
    """Take `path`, or a name beside it when another process has it; never fails for what is or is not there."""
    for nth in range(1, MAX_FILES + 1):
        candidate = path if nth == 1 else path.with_stem(f"{path.stem}-{nth}")
        lock = _lock(candidate)
        if lock is not None:
            return Claim(path=candidate, lock=lock, temporary=False)
    logger.warning("no file for the index can be had, it goes to a temporary folder", extra={"path": str(path)})
    candidate = Path(tempfile.mkdtemp(prefix="pyoco-index-")) / path.name
    lock = _lock(candidate)
    if lock is None:
        raise OSError(f"no temporary file for the index can be had at {candidate}")
    return Claim(path=candidate, lock=lock, temporary=True)


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes, on a file with our schema: what else is found there is deleted."""
    if not path.exists():
        return start_empty(path)
    try:
        writer = _connect(path, WRITER_CACHE_KIB)
        if _is_ours_and_whole(writer, path):
            return writer
        reason = "another schema, or damaged"
        writer.close()
    except sqlite3.DatabaseError as broken:
        reason = str(broken)
    logger.warning("the index cannot be used and is built again", extra={"path": str(path), "reason": reason})
    return start_empty(path)


def start_empty(path: Path) -> sqlite3.Connection:
    """A new file in place of whatever was there; no connection of ours may be open on it."""
    discard(path)
    writer = _connect(path, WRITER_CACHE_KIB)
    writer.executescript(resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8"))
    writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return writer


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that reads beside the writer, and refuses to write."""
    reader = _connect(path, READER_CACHE_KIB)
    reader.execute("PRAGMA query_only = ON")
    return reader


def discard(path: Path) -> None:
    """Delete the file and what SQLite keeps beside it (a folder in its place too)."""
    for suffix in _BESIDES:
        beside = path.with_name(path.name + suffix)
        if beside.is_dir():
            shutil.rmtree(beside)
        else:
            beside.unlink(missing_ok=True)


def _lock(path: Path) -> sqlite3.Connection | None:
    # SQLite's own file lock: on every platform, and gone with the process. It is on a file of its own because an
    # exclusive lock on the index would lock out our reader too.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(
            path.with_name(path.name + ".lock"), timeout=0, isolation_level=None, check_same_thread=False
        )
    except (sqlite3.DatabaseError, OSError):
        return None
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError:
        lock.close()
        return None
    return lock


def _connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Off: a power failure may cost the file, which the bucket gives back; a killed process costs nothing.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _is_ours_and_whole(writer: sqlite3.Connection, path: Path) -> bool:
    if writer.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
        return False
    # A clean close removes the write-ahead log. Where one is left somebody died, perhaps with the machine: look closer.
    wal = path.with_name(path.name + "-wal")
    left_behind = wal.exists() and wal.stat().st_size > 0
    return not left_behind or bool(writer.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
