# Generated from _async/__init__.py by scripts/unasync. Do not edit.
"""The blocking client, generated from `_async`."""
