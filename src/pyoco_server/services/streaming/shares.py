"""How many streams a tenant and a caller may hold: always fewer than everything, so that the next tenant finds room.

The rule is the dynamic threshold of shared buffers: a tenant may hold as many streams as are still free. One that opens
all it can gets half, two get a third each, and so on; a part stays free for those that come later. Within its tenant a
caller may hold three times as many as the tenant could still open. Nothing has to be known about the tenants, and no
open stream is closed for another.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from pyoco_server.domain.auth.caller import ANYONE, Caller
from pyoco_server.errors import TooManyStreams, TooManyWatchers

K = TypeVar("K")

# Higher than the tenant's: callers of one tenant trust each other more, and often there is only one.
CALLER_SHARE = 3
# When a caller with too many streams should retry: its own streams have to end first.
RETRY_SEC = 5


class StreamShares:
    """The open streams of a gateway. Without access control all callers are one, and only the limits count.

    `holder` names who is counted for `per_caller` (0: no limit), also without access control: by address.
    """

    def __init__(self, limit: int, per_caller: int = 0) -> None:
        self.limit = limit
        self.per_caller = per_caller
        self.open_count = 0
        self._of_tenants: Counter[str | None] = Counter()
        self._of_callers: Counter[tuple[str | None, str | None]] = Counter()
        self._of_holders: Counter[str] = Counter()

    def take(self, caller: Caller, holder: str = "") -> None:
        """Count one more stream, or raise `TooManyStreams` (the caller's limit) or `TooManyWatchers` (its share)."""
        if 0 < self.per_caller <= self._of_holders[holder]:
            raise TooManyStreams(
                f"this caller has {self.per_caller} open streams, as many as a caller may have at this gateway",
                limit=self.per_caller,
                retry_after_sec=RETRY_SEC,
            )
        if self.open_count >= self.limit:
            raise TooManyWatchers(f"this gateway has reached its limit of {self.open_count} open streams")
        if caller != ANYONE:
            self._check(caller)
        self.open_count += 1
        self._of_tenants[caller.tenant_id] += 1
        self._of_callers[_identity(caller)] += 1
        self._of_holders[holder] += 1

    def give_back(self, caller: Caller, holder: str = "") -> None:
        """A stream of this caller has ended."""
        self.open_count -= 1
        _decrement(self._of_tenants, caller.tenant_id)
        _decrement(self._of_callers, _identity(caller))
        _decrement(self._of_holders, holder)

    def _check(self, caller: Caller) -> None:
        """A first stream is always allowed: a caller without streams cannot wait for one of them to end."""
        tenants, callers = self._of_tenants[caller.tenant_id], self._of_callers[_identity(caller)]
        free = self.limit - self.open_count
        if tenants and tenants + 1 > free - 1:
            raise TooManyWatchers(
                f"this tenant has {tenants} open streams, as many as this gateway still has free for all others"
            )
        # Each stream of the tenant also leaves one less free.
        room = (free - 1 - (tenants + 1)) // 2
        if callers and callers + 1 > CALLER_SHARE * room:
            raise TooManyWatchers(f"this caller has {callers} open streams, most of what its tenant may have")


def _decrement(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]  # tenants and callers come and go


def _identity(caller: Caller) -> tuple[str | None, str | None]:
    return caller.tenant_id, caller.api_key_id or caller.name
