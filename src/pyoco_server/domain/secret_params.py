"""Which params are secret, and their values removed from texts: of errors, tracebacks and log lines.

Only whole values are found, as they are and as Python and JSON quote them: not parts of them, nor other encodings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import translate
from functools import lru_cache
from typing import Any

MASK = "***"
# Shorter values occur in any text.
MIN_CHARS = 4


class SecretMask:
    """Replaces the values of those params, at any depth, whose name matches a pattern; case does not count."""

    def __init__(self, params: Mapping[str, Any], patterns: Collection[str]) -> None:
        is_secret_name = _matcher(tuple(patterns))
        # Now, not at the first error: a task may change its params.
        found = {form for value in _secrets(params, is_secret_name, is_secret=False) for form in _forms(value)}
        # The longest first: one value may be a part of another.
        self._values = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, MASK)
        return text


def _secrets(value: Any, is_secret_name: Callable[[str], object], *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            is_inner_secret = is_secret or bool(is_secret_name(_normal(str(name))))
            yield from _secrets(inner, is_secret_name, is_secret=is_inner_secret)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner, is_secret_name, is_secret=is_secret)
    elif is_secret and value is not None and not isinstance(value, bool):
        yield str(value)


@lru_cache(maxsize=8)
def _matcher(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """One expression for all patterns: every run asks it."""
    return re.compile("|".join(translate(_normal(pattern)) for pattern in patterns) or "(?!)").match


def _normal(name: str) -> str:
    return name.casefold().replace("-", "_")


def _forms(value: str) -> Iterator[str]:
    """The value, and as the inside of a literal of Python and of JSON; a text of several lines also line by line."""
    lines = value.splitlines() if "\n" in value else ()
    for one in (value, value.strip(), *lines):
        for form in (one, repr(one)[1:-1], json.dumps(one)[1:-1], json.dumps(one, ensure_ascii=False)[1:-1]):
            if len(form) >= MIN_CHARS:
                yield form
