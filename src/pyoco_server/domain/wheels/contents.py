"""Whether a file is the wheel that its name says: its form, its entries and its METADATA; none of it is run or kept.

The file comes from whoever may upload, and is unpacked by workers later. So everything that unpacking could be made to
do is refused here: to leave the folder, to fill a disk, to follow a link, to write one file twice.
"""

from __future__ import annotations

from email.parser import BytesHeaderParser
from hashlib import blake2b
from typing import BinaryIO

from packaging.version import Version

from pyoco_server.domain.wheels.names import WheelName, normal_package
from pyoco_server.domain.wheels.zip_directory import (
    LOCAL_BYTES,
    Directory,
    Entry,
    NotAZip,
    find_directory,
    read_entries,
    read_start,
)
from pyoco_server.errors import InvalidRequest

MAX_ENTRIES = 100_000
MAX_DIRECTORY_BYTES = 64 * 1024 * 1024
MAX_UNPACKED_BYTES = 4 * 1024**3
# Text packs 1 to 5, rarely 1 to 20; whatever is below the allowance harms nobody.
MAX_RATIO = 100
RATIO_ALLOWANCE_BYTES = 16 * 1024 * 1024
MAX_METADATA_BYTES = 256 * 1024
# What disks take; the whole of it leaves room for the folder of a worker's environment.
MAX_PATH_BYTES, MAX_PART_BYTES = 1024, 255

NEEDED = ("METADATA", "WHEEL", "RECORD")
_KINDS = (0, 0o040000, 0o100000)  # not said, folder, file; links and devices are none of these


def check_contents(file: BinaryIO, size: int, name: WheelName) -> None:
    """Refuse (`InvalidRequest`) what is not a wheel of that name and version, or what could do harm when unpacked."""
    try:
        directory = find_directory(file, size)
        if directory.entries > MAX_ENTRIES or directory.size_bytes > MAX_DIRECTORY_BYTES:
            raise InvalidRequest(f"{name.file_name} has more than {MAX_ENTRIES} files")
        metadata = _check_entries(file, size, directory, name)
        _check_metadata(read_start(file, metadata, MAX_METADATA_BYTES), name)
    except NotAZip as error:
        raise InvalidRequest(f"{name.file_name} is not a wheel: {error}") from error


def _check_entries(file: BinaryIO, size: int, directory: Directory, name: WheelName) -> Entry:
    """Every entry is harmless and all of them together; returns the METADATA."""
    seen: set[bytes] = set()
    packed = unpacked = 0
    described: dict[str, Entry] = {}
    folders: set[str] = set()
    for entry in read_entries(file, directory):
        _check_entry(entry, name)
        # Digests instead of names, which may be 64 KiB long each. Case is ignored where workers' disks may ignore it.
        seen.add(blake2b(entry.name.rstrip("/").casefold().encode(), digest_size=16).digest())
        packed += entry.packed_bytes + LOCAL_BYTES + len(entry.raw_name)
        unpacked += entry.size_bytes
        folder, _, file_name = entry.name.partition("/")
        if folder.endswith(".dist-info"):
            folders.add(folder)
            if file_name in NEEDED:
                described[file_name] = entry
    if len(seen) != directory.entries:
        raise InvalidRequest(f"{name.file_name} has two files of the same name")
    # Entries that share their bytes are how a small file unpacks to a very large one within every ratio.
    if packed > directory.offset:
        raise InvalidRequest(f"{name.file_name} has files that lie in each other")
    if unpacked > min(MAX_UNPACKED_BYTES, size * MAX_RATIO + RATIO_ALLOWANCE_BYTES):
        raise InvalidRequest(f"{name.file_name} would unpack to {unpacked} bytes, which is out of all proportion")
    if len(folders) != 1:
        raise InvalidRequest(f"{name.file_name} has {len(folders)} folders *.dist-info instead of one")
    _check_folder(folders.pop(), name)
    missing = [one for one in NEEDED if one not in described]
    if missing:
        raise InvalidRequest(f"{name.file_name} has no {' and no '.join(missing)} in its *.dist-info")
    return described["METADATA"]


def _check_entry(entry: Entry, name: WheelName) -> None:
    shown = entry.name[:80]
    parts = entry.name.removesuffix("/").split("/")
    # A name may be empty, lead out of the folder, or mean a drive; none of these is a file of a package.
    strange = any(part in ("", ".", "..") for part in parts) or "\\" in entry.name or ":" in entry.name
    if strange or not entry.name.isprintable():
        raise InvalidRequest(f"{name.file_name} has a file that would leave its folder, or no file name: {shown!r}")
    if len(entry.raw_name) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        raise InvalidRequest(f"{name.file_name} has a file whose name is longer than disks take: {shown!r}")
    if entry.unix_mode & 0o170000 not in _KINDS:
        raise InvalidRequest(f"{name.file_name} has a link or a device: {shown!r}")


def _check_folder(folder: str, name: WheelName) -> None:
    package, _, version = folder.removesuffix(".dist-info").rpartition("-")
    if normal_package(package) != name.package or _version(version) != name.version:
        raise InvalidRequest(f"{name.file_name} has a folder of another wheel: {folder[:80]!r}")


def _check_metadata(data: bytes, name: WheelName) -> None:
    found = BytesHeaderParser().parsebytes(data)
    names, versions = found.get_all("Name", []), found.get_all("Version", [])
    if len(names) != 1 or len(versions) != 1:
        raise InvalidRequest(f"{name.file_name}: its METADATA must say Name and Version once")
    said, version = str(names[0]), str(versions[0])
    if normal_package(said) != name.package or _version(version) != name.version:
        raise InvalidRequest(f"{name.file_name}: its METADATA is of {said[:80]!r} {version[:40]!r}")


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except ValueError:  # no version; or one of thousands of digits, of which Python makes no number
        return None
