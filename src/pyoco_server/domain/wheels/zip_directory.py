"""The directory of a zip file, entry by entry: bounded in memory whatever the file says of itself, strict in its form.

The standard library reads the whole directory at once, half a gigabyte if a file claims so, and takes files with
something before, behind or between; two readers may then see two different files. Here a zip is its entries, then its
directory, then its end, and nothing else. Nothing is unpacked but what is asked for, up to a limit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

STORED, DEFLATED = 0, 8

_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_END64_PLACE = struct.Struct("<4sLQL")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_FIELD = struct.Struct("<2H")

_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_SIZES64 = 1
_ENCRYPTED, _UTF8 = 0x1, 0x800
LOCAL_BYTES = _LOCAL.size


class NotAZip(Exception):
    """It is no zip, or one of a form that is not accepted; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Where the directory is, and how many entries it claims to have."""

    offset: int
    size_bytes: int
    entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file (or folder) in the zip, as its directory describes it."""

    raw_name: bytes
    name: str
    method: int
    packed_bytes: int
    size_bytes: int
    offset: int
    unix_mode: int


def find_directory(file: BinaryIO, size: int) -> Directory:
    """Read the end of the file."""
    if size < _END.size:
        raise NotAZip("it is too short for a zip")
    end_at = size - _END.size
    mark, disk, first_disk, here, entries, length, offset, comment = _END.unpack(_read(file, end_at, _END.size))
    if mark != b"PK\x05\x06" or comment:
        raise NotAZip("it does not end as a zip does")
    if (disk, first_disk) != (0, 0) or here != entries:
        raise NotAZip("it is a part of a zip of several parts")
    if entries == _FULL16 or _FULL32 in (length, offset):
        end_at, entries, length, offset = _large_end(file, end_at)
    if offset + length != end_at:
        raise NotAZip("its directory does not lie before its end")
    return Directory(offset=offset, size_bytes=length, entries=entries)


def read_entries(file: BinaryIO, directory: Directory) -> Iterator[Entry]:
    """Every entry in turn; `NotAZip` when there are more, fewer or other things than the end of the file says."""
    file.seek(directory.offset)
    left = directory.size_bytes
    for _ in range(directory.entries):
        fixed = file.read(_ENTRY.size)
        if len(fixed) < _ENTRY.size or not fixed.startswith(b"PK\x01\x02"):
            raise NotAZip("its directory is damaged")
        (_, _, _, flags, method, _, _, _, packed, size, name_len, extra_len, comment_len, _, _, mode, offset) = (
            _ENTRY.unpack(fixed)
        )
        rest = file.read(name_len + extra_len + comment_len)
        left -= _ENTRY.size + name_len + extra_len + comment_len
        if left < 0 or len(rest) < name_len + extra_len + comment_len:
            raise NotAZip("its directory is damaged")
        raw = rest[:name_len]
        size, packed, offset = _large_sizes(size, packed, offset, rest[name_len : name_len + extra_len])
        if offset + _LOCAL.size > directory.offset:
            raise NotAZip("it has a file that is not before its directory")
        yield Entry(
            raw_name=raw,
            name=_decode(raw, flags),
            method=_method(method, flags),
            packed_bytes=packed,
            size_bytes=size,
            offset=offset,
            unix_mode=mode >> 16,
        )
    if left:
        raise NotAZip("its directory has more than its end says")


def read_start(file: BinaryIO, entry: Entry, most: int) -> bytes:
    """The first bytes of an entry, unpacked: so many at the most, however many it would be."""
    mark, *_, name_len, extra_len = _LOCAL.unpack(_read(file, entry.offset, _LOCAL.size))
    if mark != b"PK\x03\x04" or file.read(name_len) != entry.raw_name:
        raise NotAZip(f"{entry.name!r} is not where its directory says")
    file.seek(extra_len, 1)
    if entry.method == STORED:
        return file.read(min(most, entry.packed_bytes))
    # Deflate packs at most 1 to 1032, so no more than this is needed, or it is not what it says.
    packed = file.read(min(entry.packed_bytes, most + 1024))
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most)
    except zlib.error as error:
        raise NotAZip(f"{entry.name!r} cannot be unpacked: {error}") from error


def _read(file: BinaryIO, at: int, size: int) -> bytes:
    file.seek(at)
    data = file.read(size)
    if len(data) < size:
        raise NotAZip("it is cut off")
    return data


def _large_end(file: BinaryIO, end_at: int) -> tuple[int, int, int, int]:
    """Of a zip with more or larger entries than the old format can tell: where it ends, and what it has."""
    place_at = end_at - _END64_PLACE.size
    if place_at < _END64.size:
        raise NotAZip("its end is damaged")
    mark, disk, large_at, disks = _END64_PLACE.unpack(_read(file, place_at, _END64_PLACE.size))
    if mark != b"PK\x06\x07" or disk != 0 or disks > 1 or large_at != place_at - _END64.size:
        raise NotAZip("its end is damaged")
    fields = _END64.unpack(_read(file, large_at, _END64.size))
    mark, here, entries, length, offset = fields[0], *fields[6:]
    if mark != b"PK\x06\x06" or here != entries:
        raise NotAZip("its end is damaged")
    return large_at, entries, length, offset


def _large_sizes(size: int, packed: int, offset: int, extra: bytes) -> tuple[int, int, int]:
    """The sizes and the place of an entry, where they are too large for their own fields."""
    values = [size, packed, offset]
    if _FULL32 not in values:
        return size, packed, offset
    while len(extra) >= _FIELD.size:
        kind, length = _FIELD.unpack_from(extra)
        body, extra = extra[_FIELD.size : _FIELD.size + length], extra[_FIELD.size + length :]
        if kind == _SIZES64:
            for place, value in enumerate(values):
                if value == _FULL32 and len(body) >= 8:
                    values[place], body = int.from_bytes(body[:8], "little"), body[8:]
            return values[0], values[1], values[2]
    raise NotAZip("the size of an entry is missing")


def _decode(raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8" if flags & _UTF8 else "ascii")
    except UnicodeDecodeError as error:
        raise NotAZip(f"the name {raw[:80]!r} is not UTF-8") from error


def _method(method: int, flags: int) -> int:
    if flags & _ENCRYPTED:
        raise NotAZip("it is encrypted")
    if method not in (STORED, DEFLATED):
        raise NotAZip(f"it is packed by a method ({method}) that not every Python can read")
    return method
