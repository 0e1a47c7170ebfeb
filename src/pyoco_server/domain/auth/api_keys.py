"""API keys: their format, their stored records, and how a presented key is verified.

    pyoco_<key id, 16 hex digits>_<256 random bits, 43 characters of base64url>

The key id is not secret: records, logs and runs show it. Only a digest of the key is stored. The secret has 256 random
bits, so a fast hash suffices: it cannot be guessed. A pepper, known to gateways and administrators only, keeps anyone
with write access to the bucket from creating keys.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NewType

import msgspec

from pyoco_server.domain.auth.caller import Caller, is_tenant_id
from pyoco_server.domain.auth.scopes import Scope, known_scopes, scope_names
from pyoco_server.errors import InvalidApiKey, InvalidUsage

KeyId = NewType("KeyId", str)

MAX_NAME_CHARS = 128

_KEY_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_KEY = re.compile(r"pyoco_(?P<key_id>[0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_FINGERPRINT_OF = b"the pepper of pyoco-server"
# Sixteen bits: enough to detect a wrong pepper, too few to guess a weak one.
_FINGERPRINT_DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """The stored record of a key, and the `caller` it authenticates.

    `pepper_id` is the fingerprint of the pepper it was made with, None if without.
    """

    key_id: KeyId
    tenant_id: str
    scopes: frozenset[Scope]
    created_at: float
    digest: str = field(repr=False)
    pepper_id: str | None = None
    name: str | None = None
    expires_at: float | None = None
    revoked_at: float | None = None

    @cached_property
    def caller(self) -> Caller:
        return Caller(
            name=self.key_id,
            tenant_id=self.tenant_id,
            api_key_id=self.key_id,
            scopes=self.scopes,
            valid_until=self.expires_at,
        )

    def is_active(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Pepper:
    """The secret that is mixed into every digest; empty means none."""

    secret: str = field(repr=False)

    @property
    def fingerprint(self) -> str | None:
        """Distinguishes two peppers without revealing either."""
        if not self.secret:
            return None
        return hmac.new(self.secret.encode(), _FINGERPRINT_OF, hashlib.sha256).hexdigest()[:_FINGERPRINT_DIGITS]

    def digest(self, text: str) -> str:
        if not self.secret:
            return hashlib.sha256(text.encode()).hexdigest()
        return hmac.digest(self.secret.encode(), text.encode(), "sha256").hex()


def write_key(key_id: KeyId, secret: str) -> str:
    """The key as it is given to its user."""
    return f"pyoco_{key_id}_{secret}"


def key_id_in(text: str) -> KeyId | None:
    """The key id, if the text has the format of a key."""
    found = _KEY.fullmatch(text)
    return None if found is None else KeyId(found["key_id"])


def parse_key_id(text: str) -> KeyId:
    """A key id from the command line. The error never repeats the input: it may be a whole key."""
    if not _KEY_ID.fullmatch(text):
        raise InvalidUsage("a key id has 16 of the characters 0-9 a-f (for example: 0123456789abcdef)")
    return KeyId(text)


def parse_name(text: str | None) -> str | None:
    """The display name of a key: one printable line."""
    if text is not None and not (1 <= len(text) <= MAX_NAME_CHARS and text.isprintable()):
        raise InvalidUsage(f"a key's name has 1 to {MAX_NAME_CHARS} printable characters")
    return text


def check(text: str, record: ApiKey | None, pepper: Pepper, now: float) -> Caller:
    """The caller of this key, or `InvalidApiKey`. Takes the same time without a record, against timing attacks.

    Reports revocation and expiry only to a caller with the right secret.
    """
    key_id = key_id_in(text)
    stored = record.digest if record is not None else ""
    if not hmac.compare_digest(pepper.digest(text).encode(), stored.encode()) or record is None:
        raise InvalidApiKey(key_id=key_id, reason=_mismatch_reason(record, pepper))
    if record.revoked_at is not None:
        raise InvalidApiKey("this API key was revoked", key_id=key_id, reason="revoked")
    if not record.is_active(now):
        raise InvalidApiKey("this API key has expired", key_id=key_id, reason="expired")
    return record.caller


def _mismatch_reason(record: ApiKey | None, pepper: Pepper) -> str:
    """The reason for the log; two different peppers are otherwise hard to find."""
    if record is None:
        return "unknown key"
    if record.pepper_id != pepper.fingerprint:
        return "made with another PYOCO_AUTH_PEPPER than this gateway has"
    return "wrong secret"


def to_plain(record: ApiKey) -> dict[str, Any]:
    return {
        "key_id": record.key_id,
        "tenant_id": record.tenant_id,
        "name": record.name,
        "scopes": scope_names(record.scopes),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "scheme": "sha256" if record.pepper_id is None else "hmac-sha256",
        "pepper_id": record.pepper_id,
        "digest": record.digest,
    }


def from_plain(plain: Mapping[str, Any]) -> ApiKey:
    """The stored record, or `ValueError`; unknown scopes of later versions are ignored."""
    if not is_tenant_id(plain["tenant_id"]):
        raise ValueError("a key needs a tenant")
    return msgspec.convert({**plain, "scopes": scope_names(known_scopes(plain["scopes"]))}, ApiKey)
