"""API keys and tokens for tests: real ones, made with keys of their own; nothing about them is faked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyoco_server.access.api_keys import ApiKey, KeyId, Pepper, write_key
from pyoco_server.access.scopes import USUAL_SCOPES

SECRET = "s" * 43
KEY_ID = KeyId("0123456789abcdef")
KEY = write_key(KEY_ID, SECRET)


def key_record(*, pepper: str = "", **changed: Any) -> ApiKey:
    """The record of a key with this secret; made without a pepper, unless one is given."""
    key_id = changed.get("key_id", KEY_ID)
    record = ApiKey(
        key_id=key_id,
        tenant_id="team-a",
        scopes=USUAL_SCOPES,
        created_at=100.0,
        pepper_id=Pepper(pepper).fingerprint,
        digest=Pepper(pepper).digest(write_key(key_id, SECRET)),
    )
    return replace(record, **changed)
