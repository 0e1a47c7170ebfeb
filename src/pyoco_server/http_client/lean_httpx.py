"""Imports httpx without its command line, which would import click, rich and pygments and take most of the time.

Every other module of this package imports httpx from here. Only `httpx.main`, the function of the `httpx` command, is
missing in a program that imported the SDK before httpx.
"""

from __future__ import annotations

import sys
from typing import Any

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    modules: dict[str, Any] = sys.modules
    modules[_COMMAND_LINE] = None  # marks it as not importable, which httpx handles
    try:
        import httpx
    finally:
        del modules[_COMMAND_LINE]
else:
    import httpx

__all__ = ["httpx"]
