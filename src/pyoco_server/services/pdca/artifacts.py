"""Links to artifacts: made for callers who may see the request, followed by browsers that send no credentials."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import request_of_artifact
from pyoco_server.domain.pdca.links import LINK_SEC, REFRESH_SEC, SigningKey, SigningKeys, is_signed, signature_of
from pyoco_server.domain.pdca.recheck import REQUEST_FLOW
from pyoco_server.errors import AppendConflict, ArtifactNotFound, InvalidLink, RunNotFound
from pyoco_server.ports.pdca import StoredArtifact
from pyoco_server.services.context import Stores
from pyoco_server.services.executions.service import ExecutionService

# Each is the success of another gateway.
MAX_RACES = 20
KEY_ID_CHARS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLink:
    """Who has it may read the artifact until it expires."""

    artifact_id: str
    expires: int
    key_id: str
    signature: str = field(repr=False)


class SharedSigningKeys:
    """A gateway's copy of the signing keys, at most `REFRESH_SEC` old."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._keys: SigningKeys | None = None
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def current(self) -> SigningKey:
        """The key to sign with; makes the first one, and a new one each day."""
        if self._keys is None or self._stores.clock.monotonic() - self._read_at >= REFRESH_SEC or self._is_due():
            await self._read(rotate=True)
        assert self._keys is not None  # noqa: S101 - it was just read or made
        return self._keys.current

    async def find(self, key_id: str) -> SigningKey | None:
        """The key of this id, if it may still be used; another gateway may just have made it."""
        found = self._find(key_id)
        if found is None:
            await self._read(rotate=False)
            found = self._find(key_id)
        return found

    def _find(self, key_id: str) -> SigningKey | None:
        return None if self._keys is None else self._keys.find(key_id, self._stores.clock.now())

    def _is_due(self) -> bool:
        return self._keys is None or self._keys.is_due(self._stores.clock.now())

    async def _read(self, *, rotate: bool) -> None:
        asked_at = self._stores.clock.monotonic()
        async with self._reading:
            # Those who waited for a read that began after they asked need none of their own.
            if self._read_at > asked_at and not (rotate and self._is_due()):
                return
            for _ in range(MAX_RACES):
                began_at = self._stores.clock.monotonic()
                stored = await self._stores.signing_keys.get()
                self._keys, self._read_at = stored.keys, began_at
                if not rotate or not self._is_due():
                    return
                fresh = self._new_key()
                keys = SigningKeys(current=fresh) if stored.keys is None else stored.keys.rotated(fresh)
                if await self._stores.signing_keys.replace(keys, revision=stored.revision):
                    self._keys = keys
                    return
            raise AppendConflict

    def _new_key(self) -> SigningKey:
        ids, secret = self._stores.ids, self._stores.ids.key_secret()
        return SigningKey(key_id=ids.key_id()[:KEY_ID_CHARS], created_at=self._stores.clock.now(), secret=secret)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactService:
    """Links to artifacts, and what they lead to."""

    stores: Stores
    executions: ExecutionService
    keys: SharedSigningKeys

    async def link(self, artifact_id: str, *, tenant_filter: str | None) -> ArtifactLink:
        """A link that is valid for `LINK_SEC`; `ArtifactNotFound` for another tenant's."""
        is_visible = await self._is_visible(request_of_artifact(artifact_id), tenant_filter)
        if not is_visible or await self.stores.artifacts.get(artifact_id) is None:
            raise ArtifactNotFound
        key, expires = await self.keys.current(), int(self.stores.clock.now() + LINK_SEC)
        signature = signature_of(key, artifact_id, expires)
        return ArtifactLink(artifact_id=artifact_id, expires=expires, key_id=key.key_id, signature=signature)

    async def follow(self, link: ArtifactLink) -> StoredArtifact:
        """The artifact of a link; `InvalidLink` unless a gateway has signed it and it has not expired."""
        key = await self.keys.find(link.key_id) if link.expires > self.stores.clock.now() else None
        if key is None or not is_signed(key, link.artifact_id, link.expires, link.signature):
            raise InvalidLink
        request_of_artifact(link.artifact_id)
        found = await self.stores.artifacts.get(link.artifact_id)
        if found is None:
            raise ArtifactNotFound
        return found

    async def _is_visible(self, request_id: RunId, tenant_filter: str | None) -> bool:
        try:
            execution = await self.executions.look(request_id, tenant_filter=tenant_filter)
        except RunNotFound:
            return False
        return execution.request.flow_name == REQUEST_FLOW
