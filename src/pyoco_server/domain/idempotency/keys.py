"""The key that a caller chose for a request, and the place where what came of it is kept; refuses what is no key."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import NewType

from pyoco_server.domain.idempotency.forms import prefixed
from pyoco_server.errors import InvalidRequest

IdempotencyKey = NewType("IdempotencyKey", str)
RecordKey = NewType("RecordKey", str)

MAX_KEY_CHARS = 255
KEY_PATTERN = r"[!-~](?:[ -~]{0,253}[!-~])?"
_KEY = re.compile(KEY_PATTERN)


def parse_key(text: str) -> IdempotencyKey:
    """A key as callers may choose it."""
    if not _KEY.fullmatch(text):
        raise InvalidRequest(
            f"an idempotency key has 1 to {MAX_KEY_CHARS} printable ASCII characters and no spaces at its ends"
        )
    return IdempotencyKey(text)


def record_key(*, tenant_id: str | None, method: str, path: str, key: IdempotencyKey) -> RecordKey:
    """Where the record of a request is kept; `path` is the concrete one, with its ids and its query.

    A key is a tenant's own, and means one thing per method and path: the same word elsewhere is another key.
    """
    fields = (tenant_id or "", method, path, key)
    return RecordKey(sha256(prefixed(*(field.encode("utf-8", "surrogatepass") for field in fields))).hexdigest())
