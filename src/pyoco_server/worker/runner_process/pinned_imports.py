"""Imports of the flows' sources as the supervisor has read them, whatever is on disk now.

Installed in the fork server, so that all its runners, also those forked later, import the same version. The bytecode
cache is not used for these files: it tells versions apart by whole seconds and sizes only. Other files, also new ones,
are imported from disk as ever.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import decode_source, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

_sources: Mapping[str, bytes] = {}
_folders: frozenset[str] = frozenset()


def install(sources: Mapping[str, bytes]) -> None:
    """From now on these files (by absolute path) are imported with this content."""
    global _sources, _folders  # one process has one import system
    _sources, _folders = sources, frozenset(_above(sources))

    def find_in(folder: str) -> _Finder:
        pinned = _pinned_folder(folder or ".")
        if pinned is None:
            raise ImportError("not a folder of pinned sources")
        return _Finder(pinned)

    sys.path_hooks.insert(0, find_in)
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def _above(sources: Iterable[str]) -> Iterator[str]:
    """The folders of these files and those above them: a folder of packages may have no file of its own."""
    for folder in {os.path.dirname(path) for path in sources}:
        yield folder
        yield from map(str, Path(folder).parents)


def has(path: str) -> bool:
    return _content(path) is not None


def _content(path: str) -> bytes | None:
    folder, name = os.path.split(path)
    pinned = _pinned_folder(folder)
    return None if pinned is None else _sources.get(os.path.join(pinned, name))


def _pinned_folder(folder: str) -> str | None:
    """The folder as the supervisor names it: by its path, or where that leads to now."""
    path = os.path.abspath(folder)
    if path in _folders:
        return path
    real = os.path.realpath(path)
    return real if real in _folders else None


class PinnedLoader(SourceFileLoader):
    """Loads a source file with its pinned content, if it has one."""

    def get_data(self, path: str) -> bytes:
        pinned = _content(path)
        return super().get_data(path) if pinned is None else pinned

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        pinned = _content(path)
        if pinned is None:
            return super().get_code(fullname)
        code: CodeType = self.source_to_code(pinned, path)
        # Tracebacks show the lines that ran. Without a time the entry is never compared with the file.
        linecache.cache[path] = (len(pinned), None, decode_source(pinned).splitlines(keepends=True), path)
        return code


class _Finder(FileFinder):
    """Finds what is in a folder: pinned sources even if their files are gone."""

    def __init__(self, folder: str) -> None:
        extension, bytecode = (ExtensionFileLoader, EXTENSION_SUFFIXES), (SourcelessFileLoader, BYTECODE_SUFFIXES)
        super().__init__(folder, extension, (PinnedLoader, SOURCE_SUFFIXES), bytecode)
        self._folder = folder

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        on_disk = super().find_spec(fullname, target)
        if on_disk is not None and isinstance(on_disk.loader, ExtensionFileLoader):
            return on_disk
        base = os.path.join(self._folder, fullname.rpartition(".")[2])
        if (package := os.path.join(base, "__init__.py")) in _sources:
            return _spec(fullname, package, [base])
        return _spec(fullname, f"{base}.py", None) if f"{base}.py" in _sources else on_disk


def _spec(fullname: str, path: str, search: list[str] | None) -> ModuleSpec | None:
    loader = PinnedLoader(fullname, path)
    return spec_from_file_location(fullname, path, loader=loader, submodule_search_locations=search)
