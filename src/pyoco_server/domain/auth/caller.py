"""The caller of a request. Created once by the authentication, then trusted."""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope, scope_names
from pyoco_server.errors import ScopeMissing

TENANT_WORDS = "1 to 64 of the characters A-Z a-z 0-9 _ . -"

# A set, because comparing sets of scopes is faster than hashing scopes, and happens on every request.
_ADMIN = frozenset({Scope.ADMIN})
_TENANT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


class Caller(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A caller with scopes; submitted runs belong to `tenant_id`.

    Of a token: which of our audiences it is for, and whether it has a claim for scopes. An API key is for all of them.
    `valid_until` is when the credentials expire, in unix seconds.
    """

    name: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    scopes: frozenset[Scope] = EVERY_SCOPE
    audiences: frozenset[str] | None = None
    names_scopes: bool = True
    valid_until: float | None = None

    def __post_init__(self) -> None:
        # Without a tenant a caller would see every run; only `admin` may.
        if not is_tenant_id(self.tenant_id) and not self.scopes >= _ADMIN:
            raise ValueError(f"a caller needs a tenant: {TENANT_WORDS}")

    @cached_property
    def tenant_filter(self) -> str | None:
        """The only tenant whose runs this caller sees; None means all."""
        return None if self.scopes >= _ADMIN else self.tenant_id

    @property
    def client_id(self) -> str:
        """The subject of a token, or the id of an API key."""
        return self.name or self.api_key_id or "anonymous"

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or self.scopes >= _ADMIN

    def require(self, scopes: frozenset[Scope]) -> None:
        """Raise `ScopeMissing` unless the caller has all of these."""
        if scopes <= self.scopes:
            return
        for scope in scopes:
            if not self.may(scope):
                raise ScopeMissing(f"this needs the scope {scope.value}", scope=scope.value, caller=self.name)

    def require_any(self, scopes: frozenset[Scope]) -> None:
        """Raise `ScopeMissing` unless the caller has one of these."""
        if self.scopes.isdisjoint(scopes) and not self.scopes >= _ADMIN:
            names = ", ".join(scope_names(scopes))
            raise ScopeMissing(f"this needs one of the scopes {names}", scope=names, caller=self.name)


def is_tenant_id(value: object) -> bool:
    return isinstance(value, str) and _TENANT.fullmatch(value) is not None


ANYONE = Caller()
