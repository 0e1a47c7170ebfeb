"""Opens the file of the index or creates an empty one. Nothing is migrated or repaired: the cache is rebuilt.

One process per file. A second process takes the next free name beside it (`runs-2.db`, `runs-3.db`, …), so every
gateway has an index of its own. Without a usable name the file goes to a temporary folder until the process ends.
Other users of the machine cannot read the files: they contain the params of runs.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

SCHEMA_VERSION = 7
MAX_FILES = 16  # gateways on one data folder
WRITER_CACHE_KIB = 16_384
READER_CACHE_KIB = 8_192
_BESIDES = ("", "-wal", "-shm", "-journal")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLock:
    """Exclusive use of a file until `release`; the operating system drops the lock with the process."""

    path: Path
    lock: sqlite3.Connection
    temporary: bool

    def release(self) -> None:
        self.lock.close()
        if self.temporary:
            shutil.rmtree(self.path.parent, ignore_errors=True)


def lock_file(path: Path) -> FileLock:
    """Lock `path`, or a name beside it when another process has it; never fails because of existing files."""
    for nth in range(1, MAX_FILES + 1):
        candidate = path if nth == 1 else path.with_stem(f"{path.stem}-{nth}")
        lock = _lock(candidate)
        if lock is not None:
            return FileLock(path=candidate, lock=lock, temporary=False)
    logger.warning("no usable file for the index, using a temporary folder", extra={"path": str(path)})
    candidate = Path(tempfile.mkdtemp(prefix="pyoco-index-")) / path.name
    lock = _lock(candidate)
    if lock is None:
        raise OSError(f"the index cannot use the temporary file {candidate}")
    return FileLock(path=candidate, lock=lock, temporary=True)


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes. A file with another schema or with damage is replaced."""
    if not path.exists():
        return start_empty(path)
    try:
        if path.is_file():
            _make_private(path)
        writer = _connect(path, WRITER_CACHE_KIB)
        if _is_usable(writer, path):
            return writer
        reason = "another schema version, or damaged"
        writer.close()
    except sqlite3.DatabaseError as broken:
        reason = str(broken)
    logger.warning("index file unusable, rebuilding it", extra={"path": str(path), "reason": reason})
    return start_empty(path)


def start_empty(path: Path) -> sqlite3.Connection:
    """Replace the file by an empty one. No connection may be open on it."""
    discard(path)
    _make_private(path)
    writer = _connect(path, WRITER_CACHE_KIB)
    writer.executescript(resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8"))
    writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return writer


def open_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection that works beside the writer."""
    reader = _connect(path, READER_CACHE_KIB)
    reader.execute("PRAGMA query_only = ON")
    return reader


def discard(path: Path) -> None:
    """Delete the file, or a folder of its name, and the files that SQLite keeps beside it."""
    for suffix in _BESIDES:
        beside = path.with_name(path.name + suffix)
        if beside.is_dir():
            shutil.rmtree(beside)
        else:
            beside.unlink(missing_ok=True)


def _lock(path: Path) -> sqlite3.Connection | None:
    # SQLite's file lock works on every platform and ends with the process. It is on a file of its own because an
    # exclusive lock on the index would lock out our reader too.
    lock = None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock_path = path.with_name(path.name + ".lock")
        _make_private(lock_path)
        lock = sqlite3.connect(lock_path, timeout=0, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except (sqlite3.DatabaseError, OSError):
        if lock is not None:
            lock.close()
        return None
    return lock


def _make_private(path: Path) -> None:
    """Creates the file with mode 0600, or tightens it; SQLite gives the files beside it the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # By name: closing a descriptor of the file would release the locks that SQLite holds on it in this process.
        for suffix in _BESIDES:
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).chmod(0o600)


def _connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Off: a power failure may damage the file, which is then rebuilt; a killed process damages nothing.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _is_usable(writer: sqlite3.Connection, path: Path) -> bool:
    if writer.execute("PRAGMA user_version").fetchone() != (SCHEMA_VERSION,):
        return False
    # A clean close removes the write-ahead log. If one is left, the process or the machine crashed: check the file.
    wal = path.with_name(path.name + "-wal")
    left_behind = wal.exists() and wal.stat().st_size > 0
    return not left_behind or bool(writer.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
