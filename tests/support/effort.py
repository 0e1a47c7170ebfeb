"""How much the generated tests try: the same little for each change, much and at random with `PYOCO_TEST_LONG=1`."""

from __future__ import annotations

import os
import random

LONG = os.environ.get("PYOCO_TEST_LONG", "") not in ("", "0")
SEED = 20


def effort(quick: int, long: int) -> int:
    return long if LONG else quick


def chosen_seed() -> int:
    """The seed of a test that makes its own random decisions; `PYOCO_TEST_SEED` repeats one."""
    given = int(os.environ.get("PYOCO_TEST_SEED", "0"))
    number = given or (random.SystemRandom().randrange(1, 2**32) if LONG else SEED)
    print(f"PYOCO_TEST_SEED={number}")  # noqa: T201 - pytest shows it when the test fails
    return number
