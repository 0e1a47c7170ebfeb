"""The data folder of an embedded server, with one owning process at a time.

It starts no process and opens no connection.

    lock             holds the owner's pid; locked by the owner and, through an inherited descriptor, its nats-server
    nats/            the JetStream store
    nats.conf        written at each start (0600: it contains the token)
    nats.token       made once (0600)
    nats.port        the client port of the last start, so that the address stays the same
    nats.json        where the running nats-server is; removed when it stops in order
    nats-server.log  its log, rotated by itself;  nats-server.out: what it says before it has a log, or when it panics
    index/           the gateway's SQLite index
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
import select
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, Self

from pyoco_server.errors import DataFolderInUse, InvalidUsage

# A nats-server whose owner was killed exits within milliseconds; a restart waits for it.
DYING_SERVER_WAIT_SEC = 0.5
MAX_COMPLAINTS_CHARS = 2000
NO_SPACE = "no space left on device"  # the operating system's message, which nats-server repeats
MIN_FREE_BYTES = 64 * 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """What a client needs to reach a NATS server."""

    url: str
    token: str = field(repr=False)
    fsyncs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """The content of nats.json: the running nats-server, without secrets."""

    url: str
    client_port: int
    http_port: int | None
    pid: int
    fsyncs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder:
    """A data folder that this process owns until `close`."""

    path: Path
    token: str = field(repr=False)
    lock: BinaryIO = field(repr=False)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Create the folder if it is missing and lock it; `DataFolderInUse` names its owner."""
        folder = Path(path).absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if folder.stat().st_mode & 0o077:
                # Left as it is: it may be a folder that others need, such as /srv.
                logger.warning("other users can enter the data folder; chmod 700 it", extra={"path": str(folder)})
            for name in ("nats", "index"):
                (folder / name).mkdir(mode=0o700, exist_ok=True)
                (folder / name).chmod(0o700)
            lock = _take_lock(folder)
            try:
                return cls(path=folder, token=_token(folder), lock=lock)
            except BaseException:
                lock.close()
                raise
        except OSError as error:
            raise InvalidUsage(f"cannot use the data folder {folder}: {error.strerror}", folder=str(folder)) from error

    def close(self) -> None:
        """Release the folder; a nats-server that is still alive keeps it locked."""
        # Closing, never LOCK_UN: unlocking would also unlock the descriptor that the nats-server inherited.
        self.lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    @property
    def log_file(self) -> Path:
        return self.path / "nats-server.log"

    @property
    def output_file(self) -> Path:
        return self.path / "nats-server.out"

    def write_config(self, text: str) -> Path:
        """Store the configuration of the nats-server, readable by this user only."""
        path = self.path / "nats.conf"
        _write_private(path, text)
        return path

    def record_running(self, server: RunningServer) -> None:
        """Let other programs find the server, and the next start its port."""
        _write_private(self.path / "nats.port", f"{server.client_port}\n")
        _write_private(self.path / "nats.json", json.dumps(asdict(server)) + "\n")

    def record_stopped(self) -> None:
        """Unregister the running server."""
        (self.path / "nats.json").unlink(missing_ok=True)

    def log_size(self) -> int:
        """The end of the server's log."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def complaints(self, log_start: int) -> str:
        """The errors in the server's output, and in its log from `log_start` on; without the token."""
        log = "\n".join(line for line in self._log_lines(log_start) if "[FTL]" in line or "[ERR]" in line)
        text = self.output_file.read_text(errors="replace") + log
        # The beginning counts: a panic starts with its cause and continues for pages.
        return text.strip().replace(self.token, "…")[:MAX_COMPLAINTS_CHARS] or f"no complaint; see {self.log_file}"

    def ran_out_of_space(self, log_start: int) -> bool:
        """Whether the server could not write since `log_start`, and the disk has room again."""
        has_room = shutil.disk_usage(self.path).free >= MIN_FREE_BYTES
        return has_room and any(NO_SPACE in line for line in self._log_lines(log_start))

    def _log_lines(self, start: int) -> Iterator[str]:
        if self.log_size() > start:
            with self.log_file.open("rb") as log:
                log.seek(start)
                for line in log:
                    yield line.decode(errors="replace").rstrip("\n")

    def last_client_port(self) -> int | None:
        """The client port of the last start, if there was one."""
        return _number_in(self.path / "nats.port")


def find_running(path: str | os.PathLike[str]) -> ConnectionInfo | None:
    """How to reach the nats-server of this data folder; None if none is running. Locks and changes nothing."""
    folder = Path(path).absolute()
    try:
        server = _recorded_server(folder)
        if server is None or not _is_alive(server.pid) or not _is_locked(folder):
            return None
        token = (folder / "nats.token").read_text().strip()
        return ConnectionInfo(url=server.url, token=token, fsyncs=server.fsyncs)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise InvalidUsage(f"the data folder {folder} belongs to another user", folder=str(folder)) from error


def _take_lock(folder: Path) -> BinaryIO:
    # Python opens close-on-exec: only a child that gets the descriptor explicitly inherits it.
    lock = os.fdopen(os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0)
    if not _try_lock(lock):
        _await_dying_server(folder)
        if not _try_lock(lock):
            lock.close()
            raise _in_use(folder)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n".encode())
    return lock


def _try_lock(lock: BinaryIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _await_dying_server(folder: Path) -> None:
    server = _recorded_server(folder)
    if server is None or not hasattr(os, "pidfd_open"):
        return
    try:
        process = os.pidfd_open(server.pid)
    except OSError:
        return
    try:
        select.select([process], [], [], DYING_SERVER_WAIT_SEC)
    finally:
        os.close(process)


def _in_use(folder: Path) -> DataFolderInUse:
    owner, server = _number_in(folder / "lock"), _recorded_server(folder)
    if owner is not None and not _is_alive(owner) and server is not None:
        return DataFolderInUse(
            f"the data folder {folder} is in use by nats-server (pid {server.pid}), "
            f"left behind by process {owner}; end it with: kill {server.pid}",
            folder=str(folder),
            pid=server.pid,
        )
    return DataFolderInUse(
        f"the data folder {folder} is in use by process {owner or 'unknown'}", folder=str(folder), pid=owner
    )


def _is_locked(folder: Path) -> bool:
    # Called only while the recorded pid is alive, so that this short shared lock can block an opener only where a
    # stale nats.json names the pid of another program.
    with (folder / "lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _recorded_server(folder: Path) -> RunningServer | None:
    try:
        return RunningServer(**json.loads((folder / "nats.json").read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (FileNotFoundError, ValueError):
        return None


def _token(folder: Path) -> str:
    path = folder / "nats.token"
    token = path.read_text().strip() if path.exists() else ""
    if not token:
        token = secrets.token_urlsafe(32)
        _write_private(path, f"{token}\n")
    path.chmod(0o600)  # a copy from a backup may be readable by others
    return token


def _write_private(path: Path, text: str) -> None:
    # Renamed into place: readers, also after a crash, see the old text or the new one.
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
    new.replace(path)
