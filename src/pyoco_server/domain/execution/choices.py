"""The choices of a prompt, and which one an answer names.

A prompt that is an object with a list `choices` offers these choices. An answer names one of them: by itself
(`"ship"`), or as an object with the field `choice` (`{"choice": "ship", "comment": "…"}`). A choice that is no text is
named by its JSON: `2`, `true`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MAX_CHOICES = 100
MAX_CHOICE_CHARS = 128
# At most so many choices are named in one message.
MAX_NAMED = 20


def choices_of(prompt: object) -> tuple[str, ...]:
    """The names of the choices that a prompt offers; none if it has no valid `choices`."""
    listed = prompt.get("choices") if isinstance(prompt, Mapping) else None
    return () if listed is None or problem_of(listed) else names_of(listed)


def chosen(answer: object) -> str | None:
    """The name of the choice that an answer means."""
    return _name_of(answer.get("choice") if isinstance(answer, Mapping) else answer)


def problem_of_prompt(prompt: object) -> str | None:
    """What is wrong with the choices of a prompt; a prompt without choices is correct."""
    if not isinstance(prompt, Mapping) or "choices" not in prompt:
        return None
    return problem_of(prompt["choices"])


def problem_of(listed: Any) -> str | None:
    """What is wrong with a list of choices."""
    if not isinstance(listed, list | tuple) or not 1 <= len(listed) <= MAX_CHOICES:
        return f"must be a list of 1 to {MAX_CHOICES} choices"
    names = [_name_of(choice) for choice in listed]
    for name in names:
        if name is None:
            return "a choice must be a text, a number, true or false"
        if not 1 <= len(name) <= MAX_CHOICE_CHARS or not name.isprintable():
            return f"a choice must have 1 to {MAX_CHOICE_CHARS} printable characters"
    if len(set(names)) < len(names):
        return "a choice is listed twice"
    return None


def names_of(listed: Sequence[Any]) -> tuple[str, ...]:
    """The names of a list of choices without problems."""
    return tuple(_name_of(choice) or "" for choice in listed)


def shown(names: Sequence[str]) -> str:
    """The names for a message; the last ones are counted."""
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return ", ".join(names[:MAX_NAMED]) + more


def _name_of(choice: object) -> str | None:
    if isinstance(choice, str):
        return choice
    return json.dumps(choice) if isinstance(choice, bool | int | float) else None
