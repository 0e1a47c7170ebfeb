"""Opens the file of the index or creates an empty one. Nothing is migrated or repaired: the cache is rebuilt.

When it is closed, the checksum of the whole file is stored beside it (the seal); a file that does not match it at the
next start is replaced. After a crash there is no seal: SQLite checks its pages and indexes instead, which takes about
0.7 s at 100,000 runs.

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
import zlib
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import NamedTuple

MAX_FILES = 16  # gateways on one data folder
WRITER_CACHE_KIB = 16_384
READER_CACHE_KIB = 8_192
_BESIDES = ("", "-wal", "-shm", "-journal", "-seal")
_PIECE_BYTES = 1024 * 1024

# A message about a damaged schema quotes it, and sqlite3 fails to decode that.
DAMAGE = (sqlite3.Error, UnicodeDecodeError)

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


class Schema(NamedTuple):
    """The tables of a file: their version, and the script beside this module that creates them."""

    version: int
    script: str


RUN_SCHEMA = Schema(10, "schema.sql")
RESULT_SCHEMA = Schema(1, "results.sql")


class Connections(NamedTuple):
    """The connection that writes, and one that reads beside it."""

    writer: sqlite3.Connection
    reader: sqlite3.Connection


def open_file(path: Path, schema: Schema) -> Connections:
    """The connections on the file. One with another schema or with damage is replaced."""
    if path.exists():
        try:
            if path.is_file():
                make_private(path)
            found = _open(path, schema)
            if not isinstance(found, str):
                return found
            reason = found
        except (*DAMAGE, OSError) as broken:
            reason = str(broken)
        logger.warning("index file unusable, rebuilding it", extra={"path": str(path), "reason": reason})
    return start_empty(path, schema)


def start_empty(path: Path, schema: Schema) -> Connections:
    """Replace the file by an empty one. No connection may be open on it."""
    discard(path)
    make_private(path)
    writer = connect(path, WRITER_CACHE_KIB)
    writer.executescript(resources.files(__package__).joinpath(schema.script).read_text(encoding="utf-8"))
    writer.execute(f"PRAGMA user_version = {schema.version}")
    return Connections(writer, _open_reader(path))


def close_file(path: Path, connections: Connections) -> None:
    """Close the connections on an undamaged file and seal it."""
    connections.reader.close()
    connections.writer.close()  # the last one: SQLite writes its log back
    log = path.with_name(path.name + "-wal")
    if path.is_file() and not log.exists():
        _seal(path).write_bytes(_checksum(path))


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
        make_private(lock_path)
        lock = sqlite3.connect(lock_path, timeout=0, isolation_level=None, check_same_thread=False)
        lock.execute("BEGIN EXCLUSIVE")
    except (sqlite3.DatabaseError, OSError):
        if lock is not None:
            lock.close()
        return None
    return lock


def make_private(path: Path) -> None:
    """Creates the file with mode 0600, or tightens it; SQLite gives the files beside it the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # By name: closing a descriptor of the file would release the locks that SQLite holds on it in this process.
        for suffix in _BESIDES:
            with suppress(FileNotFoundError):
                path.with_name(path.name + suffix).chmod(0o600)


def _seal(path: Path) -> Path:
    return path.with_name(path.name + "-seal")


def _checksum(path: Path) -> bytes:
    checksum = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            checksum = zlib.crc32(piece, checksum)
    return b"%08x" % checksum


def _open(path: Path, schema: Schema) -> Connections | str:
    """The connections on the file, or what is wrong with it. From now on it has no seal."""
    is_sealed = _seal(path).exists()
    if is_sealed:
        is_intact = _seal(path).read_bytes() == _checksum(path)
        _seal(path).unlink()
        if not is_intact:
            return "its checksum is another one"
    with ExitStack() as stack:
        writer = stack.enter_context(closing(connect(path, WRITER_CACHE_KIB)))
        if writer.execute("PRAGMA user_version").fetchone() != (schema.version,):
            return "another schema version"
        if not is_sealed and (found := writer.execute("PRAGMA integrity_check(1)").fetchone()) != ("ok",):
            return str(found[0])
        connections = Connections(writer, _open_reader(path))
        stack.pop_all()
        return connections


def _open_reader(path: Path) -> sqlite3.Connection:
    reader = connect(path, READER_CACHE_KIB)
    reader.execute("PRAGMA query_only = ON")
    return reader


def connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        # Off: a power failure may damage the file, which is then rebuilt; a killed process damages nothing.
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    except DAMAGE:
        connection.close()
        raise
    return connection
