"""What a task may call: the form of a callable's name, and the patterns that restrict it; it never imports one."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

MAX_CALLABLE_CHARS = 256


def is_callable_name(text: str) -> bool:
    """Whether it has the form that pyoco takes: package.module:function."""
    module, colon, name = text.partition(":")
    parts = module.split(".")
    return len(text) <= MAX_CALLABLE_CHARS and bool(colon) and all(part.isidentifier() for part in [*parts, name])


def patterns_of(setting: str) -> tuple[str, ...]:
    """The patterns in a comma-separated setting; none means that everything may be called."""
    return tuple(pattern.strip() for pattern in setting.split(",") if pattern.strip())


def is_allowed(callable_name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns (`tasks:*`, `team.*:*`) fits; without patterns everything is allowed."""
    patterns = tuple(patterns)
    return not patterns or any(fnmatchcase(callable_name, pattern) for pattern in patterns)
