"""The generic cell rate algorithm: how often a caller may do something, in one number per caller.

    debt ──┬─ 0 ───────────── full: a whole burst at once
           │  each request adds `cost_ns`, each nanosecond takes one away
           └─ `burst_ns` ──── used up: refused until the debt leaves room for one request

The number is the time at which the debt is paid. Time is in whole nanoseconds, so that sums are exact. In any time t at
most `burst + rate * t` requests are admitted. Debt is a time and not a number of requests: when the rate changes, a
caller keeps the fraction of its burst and earns at the new rate at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

SECOND_NS = 1_000_000_000
MINUTE_SEC = 60
# A subscriber has a network of this size; its addresses cost it nothing.
IPV6_NETWORK_BITS = 64
# Of one client: what a proxy writes instead of an address.
NO_ADDRESS = "?"


class LimitClass(Enum):
    """What is counted together."""

    READ = "read"
    WRITE = "write"
    BULK = "bulk"
    API_READ = "api-read"
    API_WRITE = "api-write"
    UNAUTHENTICATED = "unauthenticated"


@dataclass(frozen=True, slots=True)
class Rate:
    """What one request costs, and the largest debt; both in nanoseconds."""

    cost_ns: int
    burst_ns: int

    @classmethod
    def per_minute(cls, quota: int, *, parts: int = 1, burst_sec: int = MINUTE_SEC) -> Rate:
        """The share of one of so many equal gateways. One request at a time is always possible."""
        cost_ns = MINUTE_SEC * SECOND_NS * parts // quota
        return cls(cost_ns, max(burst_sec * SECOND_NS, cost_ns))


class Verdict(NamedTuple):
    """Whether a request is admitted, and the facts for its headers. The caller of `admit` keeps `paid_at`."""

    paid_at: int
    is_admitted: bool
    remaining: int  # requests that would be admitted right now
    wait_ns: int  # until the next request is admitted
    reset_ns: int  # until a whole burst is


def admit(paid_at: int, now: int, rate: Rate) -> Verdict:
    """Judge a request. A refused one costs nothing; `paid_at` of a caller without debt is any time up to `now`."""
    cost, burst = rate.cost_ns, rate.burst_ns
    debt = paid_at - now if paid_at > now else 0
    # A burst that has shrunk leaves no debt beyond it.
    debt = min(debt, burst)
    is_admitted = debt + cost <= burst
    if is_admitted:
        debt += cost
    room = burst - debt
    return Verdict(now + debt, is_admitted, room // cost, max(0, cost - room), debt)


def address_key(host: str) -> str:
    """One name for all addresses that cost one client nothing: an IPv4 address, or the network of an IPv6 address."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return NO_ADDRESS
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    network = int(address) >> (128 - IPV6_NETWORK_BITS) << (128 - IPV6_NETWORK_BITS)
    return f"{IPv6Address(network)}/{IPV6_NETWORK_BITS}"
