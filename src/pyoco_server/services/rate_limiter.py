"""Rate limits per caller, in the memory of each gateway, which has an equal share of every quota.

The share follows from the number of live gateways, so the share of one that left is used by the others as soon as the
roster forgets it. Callers are kept in tables of bounded size; forgetting a caller never lifts its limit.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import NamedTuple

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.rate_limits import SECOND_NS, LimitClass, Rate, Verdict, admit
from pyoco_server.ports import Clock
from pyoco_server.services.gateway_roster import GatewayRoster

# Of each class, callers with credentials and addresses apart: strangers with many addresses push out no known caller.
MAX_CALLERS = 20_000
# How many of the longest unheard are looked at to make room for one; those in debt stay.
LOOKED_AT = 8
# All callers for whom there is no room.
OTHERS = "*"


class LimitedCaller(NamedTuple):
    """Who is counted. `is_known`: by credentials, not by address."""

    name: str
    is_known: bool = False


class DebtTable:
    """When the debt of each caller is paid, in order of the last request; those who were never in debt are missing."""

    def __init__(self, limit: int = MAX_CALLERS) -> None:
        self._limit = limit
        self._paid_at: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._paid_at)

    def judge(self, name: str, now: int, rate: Rate) -> Verdict:
        """Judge a request of this caller and keep its debt."""
        table = self._paid_at
        if name in table:
            table.move_to_end(name)
        elif len(table) >= self._limit and not self._make_room(now):
            name = OTHERS
        verdict = admit(table.get(name, 0), now, rate)
        table[name] = verdict.paid_at
        return verdict

    def is_used_up(self, name: str, now: int, rate: Rate) -> bool:
        """Whether the next request of this caller would be refused."""
        paid_at = self._paid_at.get(name)
        return paid_at is not None and paid_at - now + rate.cost_ns > rate.burst_ns

    def _make_room(self, now: int) -> bool:
        """Forget a caller that has paid its debt, and so loses nothing."""
        for _ in range(LOOKED_AT):
            name, paid_at = self._paid_at.popitem(last=False)
            if paid_at <= now:
                return True
            self._paid_at[name] = paid_at
        return False


class RateLimiter:
    """The limits of one gateway. A class without a quota must not be asked for."""

    def __init__(self, config: NatsBackendConfig, roster: GatewayRoster, clock: Clock) -> None:
        self._quotas = quotas_of(config)
        self.refused = Counter(dict.fromkeys(LimitClass, 0))
        self._burst_sec = config.rate_limit_burst_sec
        self._roster = roster
        self._monotonic = clock.monotonic
        self._known = {limit: DebtTable() for limit in self._quotas}
        self._addresses = {limit: DebtTable() for limit in self._quotas}
        self._parts = 0
        self._rates: dict[LimitClass, Rate] = {}

    def judge(self, limit: LimitClass, caller: LimitedCaller) -> Verdict:
        """Judge a request of this caller, and count it if it is admitted."""
        tables = self._known if caller.is_known else self._addresses
        verdict = tables[limit].judge(caller.name, self._now(), self._rate(limit))
        if not verdict.is_admitted:
            self.refused[limit] += 1
        return verdict

    def is_used_up(self, limit: LimitClass, caller: LimitedCaller) -> bool:
        """Whether the next request of this caller would be refused; counts nothing."""
        tables = self._known if caller.is_known else self._addresses
        return tables[limit].is_used_up(caller.name, self._now(), self._rate(limit))

    def _now(self) -> int:
        return int(self._monotonic() * SECOND_NS)

    def _rate(self, limit: LimitClass) -> Rate:
        if (parts := self._roster.size) != self._parts:
            self._parts = parts
            self._rates = {
                one: Rate.per_minute(quota, parts=parts, burst_sec=self._burst_sec)
                for one, quota in self._quotas.items()
            }
        return self._rates[limit]


def quotas_of(config: NatsBackendConfig) -> dict[LimitClass, int]:
    """The requests per minute of each class that is limited."""
    quotas = {
        LimitClass.READ: config.rate_limit_read_per_min,
        LimitClass.WRITE: config.rate_limit_write_per_min,
        LimitClass.BULK: config.rate_limit_bulk_per_min,
        LimitClass.API_READ: config.rate_limit_api_read_per_min,
        LimitClass.API_WRITE: config.rate_limit_api_write_per_min,
        LimitClass.UNAUTHENTICATED: config.rate_limit_unauthenticated_per_min,
    }
    return {limit: quota for limit, quota in quotas.items() if quota}
