"""Which names this gateway answers to, by the Host header of a request.

A page whose name was rebound to this machine (DNS rebinding) is of the same origin for its browser: no rule about
origins stops it. It needs a name of its own, so IP addresses and `localhost` are safe, and other names are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import HostRefused, InvalidRequest, PyocoError

# Beyond `.localhost` (RFC 6761), whose subdomains some resolvers ask the network for: those are listed like others.
_LOCAL = "localhost"
_FIELD = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[\w.~%-]+)?)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?", re.ASCII
)
# A client has one name for the gateway; more are tried by those who search for one.
_REMEMBERED = 256
_SHOWN_CHARS = 100


class MalformedHost(InvalidRequest):
    """A missing, repeated or malformed Host header, which HTTP answers with 400."""


class HostCheck:
    """Checks the Host headers of requests; the port does not count."""

    def __init__(self, config: NatsBackendConfig) -> None:
        listed = [name.strip().lower() for name in config.http_allowed_hosts.split(",") if name.strip()]
        self._names = frozenset([_LOCAL, *(name for name in listed if not name.startswith("*."))])
        self._endings = tuple(name[1:] for name in listed if name.startswith("*."))
        self._refusal_of = lru_cache(_REMEMBERED)(self._judge)

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> PyocoError | None:
        """Why a request with these headers is refused; None when it is not."""
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1:
            return MalformedHost(f"the request has {len(hosts)} Host headers; one is required")
        why = self._refusal_of(hosts[0])
        return None if why is None else why[0](why[1])

    def _judge(self, value: bytes) -> tuple[type[PyocoError], str] | None:
        text = value.decode("latin-1").strip()
        shown = repr(text[:_SHOWN_CHARS])
        match = _FIELD.fullmatch(text)
        if match is None or (match["v6"] and not _is_address(IPv6Address, match["v6"])):
            return MalformedHost, f"the Host header {shown} is not a name or an address with an optional port"
        if match["v6"] or _is_address(IPv4Address, match["name"]):
            return None
        name = match["name"].lower().removesuffix(".")
        if name in self._names or name.endswith(self._endings):
            return None
        return HostRefused, f"this gateway does not answer to the name {shown} (PYOCO_HTTP_ALLOWED_HOSTS)"


def _is_address(kind: type[IPv4Address | IPv6Address], text: str) -> bool:
    try:
        kind(text)
    except AddressValueError:
        return False
    return True
