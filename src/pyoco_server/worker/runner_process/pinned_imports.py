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
from collections.abc import Mapping
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
from types import CodeType, ModuleType

_sources: Mapping[str, bytes] = {}


def install(sources: Mapping[str, bytes]) -> None:
    """From now on these files (by absolute path) are imported with this content."""
    global _sources  # one process has one import system
    _sources = sources
    folders = {os.path.dirname(path) for path in sources}

    def find_in(folder: str) -> _Finder:
        if os.path.realpath(folder or ".") not in folders:
            raise ImportError("not a folder of pinned sources")
        return _Finder(folder or ".")

    sys.path_hooks.insert(0, find_in)
    sys.path_importer_cache.clear()
    importlib.invalidate_caches()


def has(path: str) -> bool:
    return _content(path) is not None


def _content(path: str) -> bytes | None:
    """The pinned content. The supervisor has resolved the links to folders, and not those to files."""
    folder, name = os.path.split(path)
    return _sources.get(os.path.join(os.path.realpath(folder), name))


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
        self._real = os.path.realpath(folder)

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        on_disk = super().find_spec(fullname, target)
        if on_disk is not None and isinstance(on_disk.loader, ExtensionFileLoader):
            return on_disk
        name = fullname.rpartition(".")[2]
        for inner in (os.path.join(name, "__init__.py"), f"{name}.py"):
            if _is_pinned(self._real, inner):
                return _spec(fullname, os.path.join(self.path, inner))
        return on_disk


def _is_pinned(folder: str, inner: str) -> bool:
    path = os.path.join(folder, inner)
    # A package may be a link to a folder; most names are not even there.
    return path in _sources or (os.sep in inner and os.path.islink(os.path.dirname(path)) and has(path))


def _spec(fullname: str, path: str) -> ModuleSpec | None:
    search = [os.path.dirname(path)] if os.path.basename(path) == "__init__.py" else None
    loader = PinnedLoader(fullname, path)
    return spec_from_file_location(fullname, path, loader=loader, submodule_search_locations=search)
