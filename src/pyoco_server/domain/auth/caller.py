"""Who asks. Made once per request by whoever checked the credentials, then trusted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyoco_server.domain.auth.scopes import EVERY_SCOPE, Scope
from pyoco_server.errors import ScopeMissing

TENANT_WORDS = "1 to 64 of the characters A-Z a-z 0-9 _ . -"

# As a set: sets of scopes are compared without asking each for its hash, and that for every request.
_ADMIN = frozenset({Scope.ADMIN})
_TENANT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody with scopes; what they submit belongs to `tenant_id`."""

    name: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    scopes: frozenset[Scope] = EVERY_SCOPE

    def __post_init__(self) -> None:
        # Without a tenant every run would exist for them; that is for `admin` to see, and for nobody by mistake.
        if not is_tenant_id(self.tenant_id) and not self.scopes >= _ADMIN:
            raise ValueError(f"a caller needs a tenant: {TENANT_WORDS}")

    @property
    def tenant_filter(self) -> str | None:
        """The only tenant whose runs exist for this caller; None: all of them."""
        return None if self.scopes >= _ADMIN else self.tenant_id

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or self.scopes >= _ADMIN

    def require(self, scopes: frozenset[Scope]) -> None:
        """Refuse a caller who lacks one of these."""
        if scopes <= self.scopes:
            return
        for scope in scopes:
            if not self.may(scope):
                raise ScopeMissing(f"this needs the scope {scope.value}", scope=scope.value, caller=self.name)


def is_tenant_id(value: object) -> bool:
    """Whether a tenant may be called so: one word, the same in keys, tokens and snapshots."""
    return isinstance(value, str) and _TENANT.fullmatch(value) is not None


ANYONE = Caller()
