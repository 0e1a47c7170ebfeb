"""Inputs that refer to something: whether pyoco knows the form; what they refer to is known only when they run."""

from __future__ import annotations

FORMS = "$node.<node>.output, $ctx.params.<key> and $env.<NAME>; no other text may begin with $"


def is_selector(value: object) -> bool:
    """Whether pyoco takes it for a reference: it looks at the inputs themselves, not inside of lists and mappings."""
    return isinstance(value, str) and value.startswith("$")


def is_well_formed(selector: str) -> bool:
    """Whether it has one of the forms that pyoco resolves."""
    if selector.startswith("$node."):
        parts = selector.split(".")
        return len(parts) >= 3 and bool(parts[1]) and parts[2] == "output"
    prefixes = ("$ctx.params.", "$env.")
    return any(selector.startswith(prefix) and len(selector) > len(prefix) for prefix in prefixes)
