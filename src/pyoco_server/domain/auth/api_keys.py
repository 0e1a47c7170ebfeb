"""API keys: how they look, what is stored of them, and whether one that is shown is the one that was handed out.

    pyoco_<key id, 16 hex digits>_<256 random bits, 43 characters of base64url>

The key id is nobody's secret: it stands in records, logs and runs. Of the whole only a digest is stored. The secret has
256 random bits, so one hash is enough: there is nothing to guess that a slow one would protect. A pepper, known to
gateways and administrators only, keeps whoever can write to the bucket from making keys of their own.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

from pyoco_server.domain.auth.caller import Caller, is_tenant_id
from pyoco_server.domain.auth.scopes import Scope, in_words, known_scopes
from pyoco_server.errors import InvalidApiKey, InvalidUsage

KeyId = NewType("KeyId", str)

MAX_NAME_CHARS = 128

_KEY_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
_KEY = re.compile(r"pyoco_(?P<key_id>[0-9a-f]{16})_[A-Za-z0-9_-]{43}", re.ASCII)
_FINGERPRINT_OF = b"the pepper of pyoco-server"
# Sixteen bits: enough to tell by mistake from on purpose, too few to find a weak pepper by.
_FINGERPRINT_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """What is stored of a key, and `caller`, for whom it speaks.

    `pepper_id` is a fingerprint of the pepper it was made with, None: made without.
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
    caller: Caller = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        caller = Caller(name=self.key_id, tenant_id=self.tenant_id, api_key_id=self.key_id, scopes=self.scopes)
        object.__setattr__(self, "caller", caller)

    def is_active(self, now: float) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class Pepper:
    """The secret that is mixed into every digest; empty: none."""

    secret: str = field(repr=False)

    @property
    def fingerprint(self) -> str | None:
        """Tells two peppers apart without telling anything of either."""
        if not self.secret:
            return None
        return hmac.new(self.secret.encode(), _FINGERPRINT_OF, hashlib.sha256).hexdigest()[:_FINGERPRINT_DIGITS]

    def digest(self, text: str) -> str:
        if not self.secret:
            return hashlib.sha256(text.encode()).hexdigest()
        return hmac.digest(self.secret.encode(), text.encode(), "sha256").hex()


def write_key(key_id: KeyId, secret: str) -> str:
    """The key as it is handed out."""
    return f"pyoco_{key_id}_{secret}"


def key_id_in(text: str) -> KeyId | None:
    """The id in something that looks like a key of ours."""
    found = _KEY.fullmatch(text)
    return None if found is None else KeyId(found["key_id"])


def parse_key_id(text: str) -> KeyId:
    """A key id that somebody typed; of a whole key nothing is repeated."""
    if not _KEY_ID.fullmatch(text):
        raise InvalidUsage("a key id has 16 of the characters 0-9 a-f (for example: 0123456789abcdef)")
    return KeyId(text)


def parse_name(text: str | None) -> str | None:
    """What a person calls the key: one printable line."""
    if text is not None and not (1 <= len(text) <= MAX_NAME_CHARS and text.isprintable()):
        raise InvalidUsage(f"a key's name has 1 to {MAX_NAME_CHARS} printable characters")
    return text


def check(text: str, record: ApiKey | None, pepper: Pepper, now: float) -> Caller:
    """Whose key this is, or `InvalidApiKey`. Without a record it does the same work, for nobody to measure which is so.

    Only to somebody who has the key it tells what became of it.
    """
    key_id = key_id_in(text)
    stored = record.digest if record is not None else ""
    if not hmac.compare_digest(pepper.digest(text).encode(), stored.encode()) or record is None:
        raise InvalidApiKey(key_id=key_id, reason=_why_not(record, pepper))
    if record.revoked_at is not None:
        raise InvalidApiKey("this API key was revoked", key_id=key_id, reason="revoked")
    if not record.is_active(now):
        raise InvalidApiKey("this API key has expired", key_id=key_id, reason="expired")
    return record.caller


def _why_not(record: ApiKey | None, pepper: Pepper) -> str:
    """For the log: an operator who set two peppers would look for the mistake for long."""
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
        "scopes": in_words(record.scopes),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
        "scheme": "sha256" if record.pepper_id is None else "hmac-sha256",
        "pepper_id": record.pepper_id,
        "digest": record.digest,
    }


def from_plain(plain: Mapping[str, Any]) -> ApiKey:
    """The record as stored, or ValueError; a scope of a later version gives nothing here."""
    ends = (plain.get("expires_at"), plain.get("revoked_at"))
    if not is_tenant_id(plain["tenant_id"]) or not isinstance(plain["digest"], str):
        raise ValueError("a key needs a tenant and a digest")
    if not all(end is None or isinstance(end, int | float) for end in ends):
        raise ValueError("the ends of a key are times")
    return ApiKey(
        key_id=KeyId(plain["key_id"]),
        tenant_id=plain["tenant_id"],
        name=plain.get("name"),
        scopes=known_scopes(plain["scopes"]),
        created_at=plain["created_at"],
        expires_at=plain.get("expires_at"),
        revoked_at=plain.get("revoked_at"),
        pepper_id=plain.get("pepper_id"),
        digest=plain["digest"],
    )
