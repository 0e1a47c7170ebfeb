"""Sets and orders of slots: small numbers that stand for the rows of a table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any

# A set of more slots is kept as the bits of one number, which costs what the table is long (12 KB at 100,000 rows).
FEW = 256
CHUNK = 1_000
# Finding the slots one by one is cheaper than looking at all up to this share of them.
FOUND_SHARE = 1 / 16

_DIGITS = bytes.maketrans(b"\0\1", b"01")
_FLAGS = bytes.maketrans(b"01", b"\0\1")
Key = Callable[[int], Any]


class SlotSet:
    """The slots of the rows that have a property."""

    __slots__ = ("_bits", "_few")

    def __init__(self, slots: Iterable[int] = ()) -> None:
        few = set(slots)
        self._few: set[int] | None = few if len(few) <= FEW else None
        self._bits = 0 if len(few) <= FEW else bits_of(few)

    def add(self, slot: int) -> None:
        if self._few is None:
            self._bits |= 1 << slot
            return
        self._few.add(slot)
        if len(self._few) > FEW:
            self._bits, self._few = bits_of(self._few), None

    def discard(self, slot: int) -> None:
        if self._few is None:
            self._bits &= ~(1 << slot)
        else:
            self._few.discard(slot)

    @property
    def bits(self) -> int:
        return self._bits if self._few is None else bits_of(self._few)

    def __bool__(self) -> bool:
        return bool(self._bits if self._few is None else self._few)


def union(sets: Iterable[SlotSet]) -> int:
    """The bits of all slots that are in one of the sets."""
    bits, few = 0, set[int]()
    for one in sets:
        if one._few is None:
            bits |= one._bits
        else:
            few |= one._few
    return bits | bits_of(few)


def bits_of(slots: Iterable[int]) -> int:
    """A number whose bits are the slots; setting them one by one would copy it each time."""
    given = slots if isinstance(slots, list | set) else list(slots)
    if not given:
        return 0
    packed = bytearray((max(given) >> 3) + 1)
    for slot in given:
        packed[slot >> 3] |= 1 << (slot & 7)
    return int.from_bytes(packed, "little")


def bits_where(are: Iterable[bool]) -> int:
    """The bits of the slots for which it is so, given for each slot from the first."""
    flags = bytes(are)
    return int(flags[::-1].translate(_DIGITS), 2) if flags else 0


def slots_of(bits: int) -> list[int]:
    """The slots in the bits, lowest first."""
    size = max(bits.bit_length(), 1)
    flags = flags_of(bits, size)
    if bits.bit_count() > size * FOUND_SHARE:
        return list(compress(range(size), flags))
    slots, slot = [], flags.find(1)
    while slot >= 0:
        slots.append(slot)
        slot = flags.find(1, slot + 1)
    return slots


def flags_of(bits: int, size: int) -> bytes:
    """A byte for each of the first `size` slots: 1 for those in the bits."""
    return f"{bits:0{size}b}".encode().translate(_FLAGS)[::-1]


class _Chunk:
    """Neighbours of an order, and the same slots as bits."""

    __slots__ = ("bits", "slots")

    def __init__(self, slots: list[int]) -> None:
        self.slots = slots
        self.bits = bits_of(slots)


class SlotOrder:
    """All slots in the order of their keys, which are unique. A key may change while its slot is not in the order.

    In chunks: an insertion moves only one of them, and a page is found by the number of slots in each.
    """

    __slots__ = ("_chunks", "_key")

    def __init__(self, key: Key, slots: Iterable[int] = ()) -> None:
        self._key = key
        ordered = sorted(slots, key=key)
        self._chunks = [_Chunk(ordered[start : start + CHUNK]) for start in range(0, len(ordered), CHUNK)]

    def add(self, slot: int) -> None:
        key = self._key(slot)
        place = min(self._chunk_of(key), len(self._chunks) - 1)
        if place < 0:
            self._chunks.append(_Chunk([slot]))
            return
        chunk = self._chunks[place]
        chunk.slots.insert(bisect_left(chunk.slots, key, key=self._key), slot)
        chunk.bits |= 1 << slot
        if len(chunk.slots) > 2 * CHUNK:
            self._chunks[place : place + 1] = [_Chunk(chunk.slots[:CHUNK]), _Chunk(chunk.slots[CHUNK:])]

    def remove(self, slot: int) -> None:
        key = self._key(slot)
        place = self._chunk_of(key)
        chunk = self._chunks[place]
        del chunk.slots[bisect_left(chunk.slots, key, key=self._key)]
        chunk.bits ^= 1 << slot
        if not chunk.slots:
            del self._chunks[place]

    def slice(self, start: int, stop: int) -> list[int]:
        """The slots from one place to another."""
        found: list[int] = []
        for chunk in self._chunks:
            if start < len(chunk.slots):
                found += chunk.slots[max(start, 0) : stop]
            start, stop = start - len(chunk.slots), stop - len(chunk.slots)
            if stop <= 0:
                break
        return found

    def slice_of(self, bits: int, size: int, start: int, stop: int) -> list[int]:
        """The same among the slots in the bits, which are below `size`."""
        flags = flags_of(bits, size)
        found: list[int] = []
        for chunk in self._chunks:
            count = (bits & chunk.bits).bit_count()
            if start < count:
                matching = list(compress(chunk.slots, map(flags.__getitem__, chunk.slots)))
                found += matching[max(start, 0) : stop]
            start, stop = start - count, stop - count
            if stop <= 0:
                break
        return found

    def sorted(self, slots: Iterable[int]) -> list[int]:
        return sorted(slots, key=self._key)

    def _chunk_of(self, key: Any) -> int:
        """The place of the first chunk that ends at the key or behind it."""
        return bisect_left(self._chunks, key, key=lambda chunk: self._key(chunk.slots[-1]))
