"""Who asks. Made once per request by whoever checked the credentials, then trusted."""

from __future__ import annotations

from dataclasses import dataclass

from pyoco_server.access.scopes import EVERY_SCOPE, Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody with scopes; what they submit belongs to `tenant_id`."""

    name: str | None = None
    tenant_id: str | None = None
    api_key_id: str | None = None
    scopes: frozenset[Scope] = EVERY_SCOPE

    @property
    def sees(self) -> str | None:
        """The only tenant whose runs exist for this caller; None: all of them."""
        return None if Scope.ADMIN in self.scopes else self.tenant_id

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or Scope.ADMIN in self.scopes


ANYONE = Caller()
