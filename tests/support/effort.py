"""The number of examples of the generated tests: few by default, many with `PYOCO_TEST_LONG=1`."""

from __future__ import annotations

import os

LONG = os.environ.get("PYOCO_TEST_LONG", "") not in ("", "0")


def effort(quick: int, long: int) -> int:
    return long if LONG else quick
