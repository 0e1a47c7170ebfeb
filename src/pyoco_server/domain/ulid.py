"""ULIDs: 128 bits as 26 characters of Crockford's base32. The other spelling of a UUID, as which ours are made."""

from __future__ import annotations

from typing import NewType

# Canonical, in upper case.
Ulid = NewType("Ulid", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_CHARS = 26
_BITS = 128
# 26 characters have 130 bits.
_FIRST = frozenset("01234567")
_LETTERS = frozenset(_ALPHABET)
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]


def ulid_of(uuid: str) -> Ulid:
    """The bits of a UUID, with or without hyphens, as a ULID."""
    bits = int(uuid.replace("-", ""), 16)
    # Two characters at a time: it is done for each request.
    pairs = [_PAIRS[bits >> shift & 1023] for shift in range(_BITS - 8, -1, -10)]
    return Ulid("".join(pairs))


def parse_ulid(text: str) -> Ulid | None:
    """The ULID in canonical spelling; None when the text is none."""
    if len(text) != _CHARS or not text.isascii():
        return None
    letters = text.upper()
    return Ulid(letters) if letters[0] in _FIRST and _LETTERS.issuperset(letters) else None


def uuid_of(ulid: Ulid) -> str:
    """The bits of a ULID as a UUID with hyphens."""
    bits = 0
    for letter in ulid:
        bits = bits << 5 | _VALUES[letter]
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
