"""The sources of the flows as one version: read by the supervisor, which runs none of them, and given to every runner.

Every Python file below the folder of the resolver and below the working directory counts, in breadth-first order up to
the limits, but hidden folders, virtual environments and installed packages.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

MAX_FILES = 2_000
MAX_BYTES = 16 * 1024 * 1024
MAX_ENTRIES = 50_000
VERSION_CHARS = 12
INSTALLED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
# A file that was written within this time of its reading may change again without a new time stamp.
SETTLED_SEC = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """One version of the sources: every file by its absolute path. `resolver` has the file behind links."""

    resolver: str
    version: str | None
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    stamp: tuple[int, ...]
    is_settled: bool
    content: bytes
    digest: bytes


class CodeReader:
    """Reads the sources; files with an unchanged time stamp and size are not read again.

    Without `follow_links`, links are left to the runners: a task of another user could make one to a file that only
    the worker may read.
    """

    def __init__(self, resolver: str, *, follow_links: bool = True) -> None:
        self._resolver = resolver
        self._follow_links = follow_links
        self._here = Path.cwd()
        self._known: dict[str, _Read] = {}
        self._has_warned = False

    def read(self) -> Code:
        """The present version. Blocks for some milliseconds; call it in a thread."""
        resolver, roots = _locate(self._resolver, self._here)
        found: dict[str, _Read] = {}
        whole, left_bytes = hashlib.sha256(), MAX_BYTES
        for name, path in _python_files(roots, follow_links=self._follow_links, on_limit=self._warn):
            if path in found:
                continue
            one = self._read_file(path)
            if one is None:
                continue
            left_bytes -= len(one.content)
            if left_bytes < 0 or len(found) == MAX_FILES:
                self._warn()
                break
            found[path] = one
            whole.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest() + one.digest)
        self._known = found
        version = whole.hexdigest()[:VERSION_CHARS] if found else None
        return Code(resolver=resolver, version=version, files={path: one.content for path, one in found.items()})

    def _read_file(self, path: str) -> _Read | None:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                return None  # opening a pipe waits for its writer
            stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_dev)
            known = self._known.get(path)
            if known is not None and known.is_settled and known.stamp == stamp:
                return known
            if status.st_size > MAX_BYTES:
                return None
            with open(path, "rb", opener=None if self._follow_links else _without_following) as file:
                content = file.read(MAX_BYTES + 1)
        except OSError:
            return None  # removed meanwhile, or not readable: an import of it says so
        is_settled = time.time() - max(status.st_mtime, status.st_ctime) > SETTLED_SEC
        digest = hashlib.sha256(content).digest()
        if known is not None and known.digest == digest:
            content = known.content  # one copy
        return _Read(stamp=stamp, is_settled=is_settled, content=content, digest=digest)

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            facts = {
                "folder": str(self._here),
                "limit_entries": MAX_ENTRIES,
                "limit_files": MAX_FILES,
                "limit_bytes": MAX_BYTES,
            }
            logger.warning("too many sources for one code version; the rest is loaded from disk", extra=facts)


def _locate(resolver: str, here: Path) -> tuple[str, list[str]]:
    """The resolver with the path of its file resolved, and the folders that hold sources."""
    location, _, name = resolver.rpartition(":")
    if location.endswith(".py"):
        file = (here / Path(location).expanduser()).resolve()
        resolver, folder = f"{file}:{name}", file.parent
    else:
        folder = _folder_of_module(location.partition(".")[0], here) if location else here
    roots = dict.fromkeys(str(one) for one in (folder, here) if not INSTALLED & set(one.parts))
    return resolver, list(roots)


def _folder_of_module(name: str, here: Path) -> Path:
    """The folder in which the top-level module is found, without importing it."""
    try:
        spec = PathFinder.find_spec(name, [str(here)]) or importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return here
    if spec is None or not spec.has_location or spec.origin is None:
        return here
    file = Path(spec.origin).resolve()
    return file.parent.parent if spec.submodule_search_locations is not None else file.parent


def _without_following(path: str, flags: int) -> int:
    # Non-blocking: between the look at the file and its opening it may have become a pipe.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself


def _python_files(roots: list[str], *, follow_links: bool, on_limit: Callable[[], None]) -> Iterator[tuple[str, str]]:
    """(name relative to its root, path), in an order that depends on names only.

    Paths keep the names of links: a link that is changed later does not matter to who has read it.
    """
    left = MAX_ENTRIES
    for root in roots:
        real_root = os.path.realpath(root)
        folders: deque[tuple[str, str, tuple[str, ...]]] = deque([("", real_root, (real_root,))])
        while folders:
            name, folder, real_folders = folders.popleft()
            try:
                with os.scandir(folder) as scanned:
                    entries = sorted(scanned, key=lambda entry: entry.name)
            except OSError:
                continue
            left -= len(entries)
            if left < 0:
                on_limit()
                return
            if any(entry.name == "pyvenv.cfg" for entry in entries):
                continue
            for entry in entries:
                if entry.is_symlink() and not follow_links:
                    continue
                inner = f"{name}/{entry.name}"
                if entry.name.endswith(".py"):
                    yield inner, entry.path
                elif entry.name.isidentifier() and entry.name not in INSTALLED and _is_folder(entry):
                    real = os.path.realpath(entry.path)
                    if real not in real_folders:
                        folders.append((inner, entry.path, (*real_folders, real)))
