"""Whether an uploaded file is the wheel that its name says. Reads the zip directory and METADATA; executes nothing.

Workers unpack the file later, so anything unsafe is refused here: paths outside the folder, links, duplicate names,
zip bombs. What pip reads into memory is limited in size.
"""

from __future__ import annotations

import struct
import zlib
from email.parser import BytesHeaderParser
from io import SEEK_END
from typing import Any, BinaryIO, cast
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from packaging.utils import canonicalize_name
from packaging.version import Version

from pyoco_server.domain.wheels.wheel import WheelName
from pyoco_server.errors import InvalidRequest

MAX_ENTRIES = 100_000
# `zipfile` loads the whole directory; this bounds its memory to about 200 MiB.
MAX_DIRECTORY_BYTES = 16 * 1024 * 1024
MAX_UNPACKED_BYTES = 4 * 1024**3
# Text compresses 1:5, rarely 1:20. Files below the allowance are harmless at any ratio.
MAX_RATIO = 100
RATIO_ALLOWANCE_BYTES = 16 * 1024 * 1024
# The files of *.dist-info that pip loads as a whole. RECORD has a line per file.
MAX_LOADED_BYTES = {
    "METADATA": 512 * 1024,
    "WHEEL": 64 * 1024,
    "RECORD": 16 * 1024 * 1024,
    "entry_points.txt": 256 * 1024,
}
# Limits of file systems, with room for the folder of a worker's environment.
MAX_PATH_BYTES, MAX_PART_BYTES = 1024, 255

NEEDED = ("METADATA", "WHEEL", "RECORD")
_END_RECORD_BYTES, _LOCAL_HEADER_BYTES = 22, 30
_DIRECTORY_ENTRY = b"PK\x01\x02"
_READ_BYTES = 64 * 1024
_FILE_TYPES = (0, 0o040000, 0o100000)  # unspecified, folder, regular file; not links or devices
_DAMAGED = (BadZipFile, EOFError, NotImplementedError, OSError, OverflowError, RuntimeError, struct.error, ValueError)


def check_contents(file: BinaryIO, size: int, name: WheelName) -> None:
    """Refuse (`InvalidRequest`) a file that is not a wheel of that name and version, or is unsafe to unpack."""
    try:
        _check_end(file)
        with ZipFile(cast(BinaryIO, _BoundedReads(file))) as archive:
            described = _check_entries(archive, size, name)
            for entry in described.values():
                _check_size(archive, entry, name)
            with archive.open(described["METADATA"]) as source:
                _check_metadata(source.read(), name)
    except (*_DAMAGED, zlib.error) as error:
        raise InvalidRequest(f"{name.file_name} is not a wheel: {error}"[:300]) from error


class _BoundedReads:
    """A file that refuses directories that are too large; `zipfile` loads them at once, which takes time and memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise BadZipFile("its directory is too large")
        data = self._file.read(size)
        if data.count(_DIRECTORY_ENTRY) > MAX_ENTRIES:
            raise BadZipFile(f"it has more than {MAX_ENTRIES} files")
        return data


def _check_end(file: BinaryIO) -> None:
    """No bytes after the zip: `zipfile` would ignore them."""
    file.seek(-_END_RECORD_BYTES, SEEK_END)
    if not file.read(_END_RECORD_BYTES).startswith(b"PK\x05\x06"):
        raise BadZipFile("it does not end like a zip")


def _check_entries(archive: ZipFile, size: int, name: WheelName) -> dict[str, ZipInfo]:
    """Check each entry and all of them together; returns the entries of *.dist-info that pip loads as a whole."""
    entries, directory_at = archive.infolist(), archive.start_dir
    if entries and min(entry.header_offset for entry in entries) != 0:
        raise BadZipFile("it does not begin with a file")
    for entry in entries:
        _check_entry(entry, directory_at, name)
    # Case is ignored because file systems of workers may ignore it.
    if len({entry.orig_filename.rstrip("/").casefold() for entry in entries}) != len(entries):
        raise InvalidRequest(f"{name.file_name} has two files of the same name")
    # Entries that share their bytes are how a small file unpacks to a very large one within every ratio.
    packed = sum(entry.compress_size + _LOCAL_HEADER_BYTES + len(entry.orig_filename) for entry in entries)
    if packed > directory_at:
        raise InvalidRequest(f"{name.file_name} has files that overlap")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > min(MAX_UNPACKED_BYTES, size * MAX_RATIO + RATIO_ALLOWANCE_BYTES):
        raise InvalidRequest(f"{name.file_name} would unpack to {unpacked} bytes, which is out of all proportion")
    paths = {entry.orig_filename: entry for entry in entries}
    folders = {folder for path in paths if (folder := path.partition("/")[0]).endswith(".dist-info")}
    if len(folders) != 1:
        raise InvalidRequest(f"{name.file_name} has {len(folders)} folders *.dist-info instead of one")
    folder = folders.pop()
    _check_folder(folder, name)
    missing = [one for one in NEEDED if f"{folder}/{one}" not in paths]
    if missing:
        raise InvalidRequest(f"{name.file_name} has no {', '.join(missing)} in its *.dist-info")
    return {one: paths[f"{folder}/{one}"] for one in MAX_LOADED_BYTES if f"{folder}/{one}" in paths}


def _check_size(archive: ZipFile, entry: ZipInfo, name: WheelName) -> None:
    """Counts what the stream unpacks to: the size in the directory is only what the sender says."""
    part = entry.orig_filename.rpartition("/")[2]
    limit, unpacked = MAX_LOADED_BYTES[part], 0
    with archive.open(entry) as source:
        while piece := source.read(_READ_BYTES):
            unpacked += len(piece)
            if unpacked > limit:
                raise InvalidRequest(f"{name.file_name}: its {part} is larger than {limit} bytes; make it shorter")


def _check_entry(entry: ZipInfo, directory_at: int, name: WheelName) -> None:
    path = entry.orig_filename
    shown, parts = path[:80], path.removesuffix("/").split("/")
    # Empty parts, "..", backslashes and drives are not paths of a package.
    is_unsafe = any(part in ("", ".", "..") for part in parts) or "\\" in path or ":" in path
    if is_unsafe or not path.isprintable():
        raise InvalidRequest(f"{name.file_name} has a file that would leave its folder, or no file name: {shown!r}")
    if len(path.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        raise InvalidRequest(f"{name.file_name} has a file name that is too long for file systems: {shown!r}")
    if (entry.external_attr >> 16) & 0o170000 not in _FILE_TYPES:
        raise InvalidRequest(f"{name.file_name} has a link or a device: {shown!r}")
    if entry.flag_bits & 1:
        raise BadZipFile("it is encrypted")
    if entry.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
        raise BadZipFile(f"it is compressed by a method ({entry.compress_type}) that not every Python can read")
    if entry.header_offset + _LOCAL_HEADER_BYTES > directory_at:
        raise BadZipFile("it has a file that is not before its directory")


def _check_folder(folder: str, name: WheelName) -> None:
    package, _, version = folder.removesuffix(".dist-info").rpartition("-")
    if not _is_of(package, version, name):
        raise InvalidRequest(f"{name.file_name} has a folder of another wheel: {folder[:80]!r}")


def _check_metadata(data: bytes, name: WheelName) -> None:
    found = BytesHeaderParser().parsebytes(data)
    names, versions = found.get_all("Name", []), found.get_all("Version", [])
    if len(names) != 1 or len(versions) != 1:
        raise InvalidRequest(f"{name.file_name}: its METADATA must have Name and Version once")
    package, version = str(names[0]), str(versions[0])
    if not _is_of(package, version, name):
        raise InvalidRequest(f"{name.file_name}: its METADATA is of {package[:80]!r} {version[:40]!r}")
    # `package @ address`: pip fetches it from there and runs its build, as the user of the worker. Only an address has
    # the sign, however a version of pip reads the line.
    if direct := next((text for one in found.get_all("Requires-Dist", []) if "@" in (text := str(one))), None):
        raise InvalidRequest(
            f"{name.file_name} requires a package from an address: {direct[:80]!r}; name the package only, and upload "
            "its wheel"
        )


def _is_of(package: str, version: str, name: WheelName) -> bool:
    try:
        return canonicalize_name(package) == name.package and Version(version) == name.version
    except ValueError:  # not a version, or one with more digits than Python converts
        return False
