"""Loads httpx without its command line, which would pull in click, rich and pygments and take most of the time.

Every other module of this package imports httpx from here. Nothing is replaced that a library uses: only `httpx.main`,
the function behind the `httpx` command, is missing in a program that loaded the SDK before it loaded httpx.
"""

from __future__ import annotations

import sys
from typing import Any

_COMMAND_LINE = "httpx._main"

if "httpx" not in sys.modules:
    modules: dict[str, Any] = sys.modules
    modules[_COMMAND_LINE] = None  # how Python spells "cannot be imported"; httpx is ready for that
    try:
        import httpx
    finally:
        del modules[_COMMAND_LINE]
else:
    import httpx

__all__ = ["httpx"]
