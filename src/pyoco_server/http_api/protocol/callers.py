"""Who is behind a request, for limits: the API key or the subject of the token, else the address."""

from __future__ import annotations

from functools import lru_cache

from starlette.types import Scope

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.rate_limits import NO_ADDRESS, address_key
from pyoco_server.services.rate_limiter import LimitedCaller

# Parsing an address costs more than all the rest of a limit.
_REMEMBERED = 4096


def limited_caller(scope: Scope) -> LimitedCaller:
    """The caller after the authentication, which leaves it in the scope."""
    caller: Caller | None = scope.get("caller")
    if caller is None:
        return limited_address(scope)
    if caller.api_key_id is not None:
        return LimitedCaller(f"key {caller.api_key_id}", is_known=True)
    if caller.name is not None:
        return LimitedCaller(f"sub {caller.tenant_id or ''} {caller.name}", is_known=True)
    return limited_address(scope)


def limited_address(scope: Scope) -> LimitedCaller:
    """The address of the peer. Headers do not count: any client can write them."""
    client = scope.get("client")
    return _NOWHERE if client is None else _of_host(client[0])


@lru_cache(_REMEMBERED)
def _of_host(host: str) -> LimitedCaller:
    return LimitedCaller(address_key(host))


_NOWHERE = LimitedCaller(NO_ADDRESS)
