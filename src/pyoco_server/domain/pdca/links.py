"""Signed links to artifacts: the keys that sign them, and how long each is accepted. Pure.

key      signs for a day ─────────────▶ replaced ── its links end ──▶ refused
next key                               signs for a day ─────────────▶ …
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from pyoco_server.domain.idempotency.keys import prefixed

LINK_SEC = 300.0
ROTATE_AFTER_SEC = 86_400.0
# How long a gateway may sign with a key that another one has replaced meanwhile: until it reads the keys again.
REFRESH_SEC = 60.0
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key shared by all gateways."""

    key_id: str
    created_at: float
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeys:
    """The key that signs, and the one before it."""

    current: SigningKey
    previous: SigningKey | None = None

    def is_due(self, now: float) -> bool:
        """Whether the key has signed for long enough."""
        return now - self.current.created_at >= ROTATE_AFTER_SEC

    def rotated(self, key: SigningKey) -> SigningKeys:
        return SigningKeys(current=key, previous=self.current)

    def find(self, key_id: str, now: float) -> SigningKey | None:
        """The key with this id, if links that it has signed may still be valid."""
        if key_id == self.current.key_id:
            return self.current
        is_recent = now < self.current.created_at + REFRESH_SEC + LINK_SEC
        return self.previous if is_recent and self.previous is not None and self.previous.key_id == key_id else None


def signature_of(key: SigningKey, artifact_id: str, expires: int) -> str:
    """The signature of a link, as base64url without padding."""
    message = prefixed(b"pyoco artifact", artifact_id.encode(), str(expires).encode())
    digest = hmac.new(key.secret.encode(), message, sha256).digest()
    return urlsafe_b64encode(digest).decode().rstrip("=")


def is_signed(key: SigningKey, artifact_id: str, expires: int, signature: str) -> bool:
    """Whether the signature is that of the link; takes the same time for every wrong one."""
    return hmac.compare_digest(signature_of(key, artifact_id, expires).encode(), signature.encode())


def to_plain(keys: SigningKeys) -> dict[str, Any]:
    stored = [key for key in (keys.current, keys.previous) if key is not None]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "keys": [{"id": key.key_id, "createdAt": key.created_at, "secret": key.secret} for key in stored],
    }


def from_plain(plain: Mapping[str, Any]) -> SigningKeys | None:
    """The inverse of `to_plain`; None for anything else."""
    try:
        if plain["schemaVersion"] != SCHEMA_VERSION:
            return None
        keys = [
            SigningKey(key_id=str(key["id"]), created_at=float(key["createdAt"]), secret=str(key["secret"]))
            for key in plain["keys"]
        ]
    except (LookupError, TypeError, ValueError):
        return None
    return SigningKeys(current=keys[0], previous=keys[1] if len(keys) > 1 else None) if keys else None
