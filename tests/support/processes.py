"""Waiting for real processes without sleeping."""

from __future__ import annotations

import os
import select


def wait_for_exit(pid: int, patience_sec: float = 30.0) -> bool:
    """Whether the process, which need not be a child of ours, has ended before our patience did."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], patience_sec)[0])
    finally:
        os.close(process)
