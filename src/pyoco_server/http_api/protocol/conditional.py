"""Conditions of a request on what its sender already has (RFC 9110, section 13): tags, compared; decides no answer.

There is no date among them: nothing here is dated by when it changed, and RFC 9110 has such conditions ignored then.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from hashlib import blake2b

import orjson

_TAG_BYTES = 12
# Of a cache with hundreds of states of one thing. More would cost more than what the sender need not be sent.
MAX_LIST_CHARS = 8 * 1024
# What is between the quotes may have commas in it: a list of tags cannot be told by splitting.
_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_BETWEEN = re.compile(r"[ \t]*(?:,[ \t]*)+|[ \t]*\Z")


def strong_tag(*facts: str | int | bool | None) -> str:
    """The same tag for the same facts, at every gateway and after every restart; another one for others."""
    digest = blake2b(orjson.dumps(facts), digest_size=_TAG_BYTES).digest()
    return f'"{urlsafe_b64encode(digest).decode()}"'


def is_known(if_none_match: str | None, tag: str) -> bool:
    """Whether the sender has what this tag stands for (If-None-Match, by weak comparison).

    By what is no list, or an endless one: no.
    """
    return _names(if_none_match, tag, weakly=True)


def is_expected(if_match: str | None, tag: str) -> bool:
    """Whether the sender wants what this tag stands for (If-Match, by strong comparison); whoever says nothing does."""
    return if_match is None or _names(if_match, tag, weakly=False)


def may_be_partial(if_range: str | None, tag: str) -> bool:
    """Whether a part is wanted of what this tag stands for (If-Range): a strong tag, the same; a date never is."""
    return if_range is None or (if_range.strip(" \t") == tag and not tag.startswith("W/"))


def _names(field: str | None, tag: str, *, weakly: bool) -> bool:
    if field is None:
        return False
    said = field.strip(" \t")
    if said == "*":
        return True
    if len(said) > MAX_LIST_CHARS or tag.removeprefix("W/") not in said:
        return False
    tags = _listed(said)
    if weakly:
        return tag.removeprefix("W/") in [one.removeprefix("W/") for one in tags]
    return tag in tags and not tag.startswith("W/")


def _listed(said: str) -> list[str]:
    """The tags of a list; none at all where it is not one, as nobody can say what was meant."""
    tags: list[str] = []
    at = len(said) - len(said.lstrip(", \t"))
    while at < len(said):
        tag = _TAG.match(said, at)
        behind = _BETWEEN.match(said, tag.end()) if tag else None
        if tag is None or behind is None:
            return []
        tags.append(tag[0])
        at = behind.end()
    return tags
