"""The digest of a multipart form: its parts, whatever their order and however they were put into one body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from pyoco_server.domain.idempotency.canonical import DIGEST_PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """A part, and the SHA-256 of its bytes: of a large one they are fed to it as they come, and never kept."""

    name: str
    sha256: bytes
    file_name: str | None = None

    @classmethod
    def of(cls, name: str, content: bytes, file_name: str | None = None) -> FormPart:
        """A part that is in memory."""
        return cls(name=name, sha256=sha256(content).digest(), file_name=file_name)


def form_digest(parts: Iterable[FormPart]) -> str:
    """What identifies the form. The file's name counts where one is given: a route gives those that it looks at."""
    told = sorted(prefixed(*_fields(part)) for part in parts)
    return DIGEST_PREFIX + sha256(prefixed(b"form", *told)).hexdigest()


def _fields(part: FormPart) -> list[bytes]:
    named = [] if part.file_name is None else [_bytes(part.file_name)]
    return [_bytes(part.name), part.sha256, *named]


def prefixed(*fields: bytes) -> bytes:
    """The fields in one piece, each behind its length: no two lists of fields make the same bytes."""
    return b"".join(len(field).to_bytes(8, "big") + field for field in fields)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
