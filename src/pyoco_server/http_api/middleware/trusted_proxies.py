"""Whose request it is behind a proxy: the address that a trusted proxy names; installed only where one is configured.

Each proxy appends to X-Forwarded-For the address that it was called from, so the list is read from its end, and only as
far as its entries come from proxies that are trusted: what stands before may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

# A client may send a header that names many trusted addresses.
MAX_HOPS = 32
_SCHEMES = {b"http": "http", b"https": "https"}


class TrustedProxies:
    """The proxies of `PYOCO_HTTP_TRUSTED_PROXIES`; `*` trusts every address."""

    def __init__(self, setting: str) -> None:
        self._is_anyone = setting.strip() == "*"
        listed = () if self._is_anyone else [entry.strip() for entry in setting.split(",") if entry.strip()]
        self._networks = [ip_network(entry) for entry in listed]

    def trusts(self, host: str) -> bool:
        """Whether the peer of a connection is one of them."""
        if self._is_anyone:
            return True
        address = _address(host)
        return address is not None and self._are_of(address)

    def client(self, forwarded: Iterable[bytes]) -> str | None:
        """The client, given the X-Forwarded-For headers of a trusted peer; None when they name none."""
        hops = b",".join(forwarded).decode("latin-1").split(",")
        client = None
        for hop in hops[: -MAX_HOPS - 1 : -1]:
            address = _address(_without_port(hop.strip()))
            if address is None:
                break
            client = str(address)
            if not self._are_of(address):
                break
        return client

    def _are_of(self, address: IPv4Address | IPv6Address) -> bool:
        return self._is_anyone or any(address in network for network in self._networks)


@dataclass(frozen=True, slots=True)
class TrustedProxiesMiddleware:
    """Outside of all others, so that limits, logs, traces and the audit trail see the client and not the proxy."""

    app: ASGIApp
    proxies: TrustedProxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if scope["type"] in ("http", "websocket") and client is not None and self.proxies.trusts(client[0]):
            named = self.proxies.client(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            if named is not None:
                scope["client"] = (named, 0)
            proto = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
            if scope["type"] == "http" and len(proto) == 1 and proto[0] in _SCHEMES:
                scope["scheme"] = _SCHEMES[proto[0]]
        await self.app(scope, receive, send)


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """The address, an IPv4 address as itself where a socket for both kinds has it as one of IPv6."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _without_port(hop: str) -> str:
    """Some proxies append the port: 192.0.2.1:4711, [2001:db8::1]:4711."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
