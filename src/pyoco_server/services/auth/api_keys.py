"""Issue, list and revoke API keys. A key is returned once and never stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, Pepper, parse_name, write_key
from pyoco_server.domain.auth.caller import TENANT_WORDS, is_tenant_id
from pyoco_server.domain.auth.scopes import Scope, scope_names
from pyoco_server.errors import AppendConflict, InvalidUsage
from pyoco_server.ports import Clock, Ids
from pyoco_server.services.audit.trail import AuditTrail
from pyoco_server.services.context import CommandContext
from pyoco_server.stores import KeyStore


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedApiKey:
    """A new key: its record, and the only copy of the key itself."""

    record: ApiKey
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeys:
    """The administration of API keys; `context` says who administers them."""

    store: KeyStore
    clock: Clock
    ids: Ids
    pepper: Pepper
    trail: AuditTrail
    context: CommandContext

    async def hand_out(
        self, tenant_id: str, scopes: frozenset[Scope], *, name: str | None = None, expires_at: float | None = None
    ) -> IssuedApiKey:
        """Create a key; a lost key cannot be recovered."""
        now = self.clock.now()
        if not is_tenant_id(tenant_id):
            raise InvalidUsage(f"a tenant has {TENANT_WORDS} (for example: --tenant team-a)")
        if expires_at is not None and expires_at <= now:
            raise InvalidUsage("the key would have expired already (for example: --expires-in 90d)")
        key_id = self.ids.key_id()
        api_key = write_key(key_id, self.ids.key_secret())
        record = ApiKey(
            key_id=key_id,
            tenant_id=tenant_id,
            name=parse_name(name),
            scopes=scopes,
            created_at=now,
            expires_at=expires_at,
            pepper_id=self.pepper.fingerprint,
            digest=self.pepper.digest(api_key),
        )
        detail = {"scopes": scope_names(scopes), "expires_at": expires_at}
        async with self.trail.change(
            "api_key.create", "api_key", key_id, self.context, tenant_id=tenant_id, detail=detail
        ):
            if not await self.store.create(record):
                raise AppendConflict(key_id=key_id)
        return IssuedApiKey(record=record, api_key=api_key)

    async def revoke(self, key_id: KeyId) -> ApiKey:
        """Revoke a key; every gateway rejects it within a second."""
        async with self.trail.change("api_key.revoke", "api_key", key_id, self.context) as change:
            now = self.clock.now()
            record = await self.store.revoke(key_id, now)
            change.unchanged = record is None or record.revoked_at != now
        if record is None:
            raise InvalidUsage(f"there is no API key {key_id}; see: pyoco-server-admin api-key list --all")
        return record

    async def look_over(self, *, tenant_id: str | None = None, ended_too: bool = False) -> Sequence[ApiKey]:
        """The keys, oldest first; expired and revoked ones with `ended_too` only."""
        now = self.clock.now()
        chosen = (
            record
            for record in await self.store.all()
            if tenant_id in (None, record.tenant_id) and (ended_too or record.is_active(now))
        )
        return sorted(chosen, key=lambda record: (record.created_at, record.key_id))
