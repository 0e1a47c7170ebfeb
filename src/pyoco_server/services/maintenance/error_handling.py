"""A round of a gateway's unasked work: whatever breaks one must not end all later ones."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyoco_server.errors import BrokerUnavailable

logger = logging.getLogger(__name__)


@contextmanager
def log_and_continue(work: str) -> Iterator[None]:
    """What goes wrong within the block is told, and put off until the next round."""
    try:
        yield
    except BrokerUnavailable:
        logger.info("put off: the broker is away", extra={"work": work})
    except Exception:
        # The outer loop of caretaker, rescue and sweep: one bad run or job must not leave all others without care.
        logger.exception("a round of care broke", extra={"work": work})
