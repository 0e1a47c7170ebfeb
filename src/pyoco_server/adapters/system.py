"""The clock, the id source and the limits of the process: the only `now()` and random names; decides nothing."""

from __future__ import annotations

import resource
import secrets
import time
from random import Random
from threading import Lock

from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.ids import CommitId, InstanceId, RunId
from pyoco_server.domain.ulid import Ulid, ulid_of

_COUNTER_BITS = 12
_COUNTER_LIMIT = 1 << _COUNTER_BITS


def open_file_limit() -> int | None:
    """How many files and connections this process may have open; None for any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


class SystemClock:
    """Clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class SystemIds:
    """Ids, as UUIDs of version 7 (RFC 9562): they sort by the time they were made, in a process without exception."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0
        # Ids must not collide; no safety hangs on their being hard to guess, so a system call for each is too dear.
        self._random = Random(secrets.randbits(256))  # noqa: S311

    def run_id(self) -> RunId:
        digits = self._uuid7()
        return RunId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))

    def commit_id(self) -> CommitId:
        return CommitId(self._uuid7())

    def request_id(self) -> Ulid:
        """For an HTTP request."""
        return ulid_of(self._uuid7())

    def instance_id(self) -> InstanceId:
        return InstanceId(self._uuid7())

    def key_id(self) -> KeyId:
        return KeyId(secrets.token_hex(8))

    def key_secret(self) -> str:
        return secrets.token_urlsafe(32)

    def _uuid7(self) -> str:
        # Milliseconds and a counter in one number that only grows: a clock set back, or more than a counter's worth of
        # ids in a millisecond, borrow from the milliseconds to come.
        with self._lock:
            self._last = max(time.time_ns() // 1_000_000 * _COUNTER_LIMIT, self._last + 1)
            millis, counter = divmod(self._last, _COUNTER_LIMIT)
        tail = 0b10 << 62 | self._random.getrandbits(62)
        return f"{millis:012x}7{counter:03x}{tail:016x}"
