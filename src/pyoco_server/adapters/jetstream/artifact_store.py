"""Artifacts in a JetStream object store, laid out as every client of NATS does it (ADR-20).

    $O.<bucket>.C.<request>.<rest of the id>.<digest>   the content, one message
    $O.<bucket>.M.<id>                                  the metadata: which content, its size, digest and media type

The content is stored first and named by its digest: two gateways that store the same artifact cannot mix theirs. All
contents of a request are below one subject, so they are found and removed together.
"""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.reads import StreamReader
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import RunId
from pyoco_server.domain.pdca.ids import ulid_of
from pyoco_server.errors import InternalError, RequestTooLarge
from pyoco_server.ports import Clock
from pyoco_server.ports.pdca import MAX_ARTIFACT_BYTES, StoredArtifact

_DIGEST = "SHA-256="
_MEDIA_TYPE = "Content-Type"


class _Meta(msgspec.Struct, frozen=True):
    nuid: str
    digest: str
    headers: dict[str, list[str]]


class JetStreamArtifactStore:
    """ArtifactStore."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, facts: Facts, clock: Clock) -> None:
        self._connection = connection
        self._bucket = config.artifact_object_store_bucket
        self._stream = subjects.object_stream(self._bucket)
        self._reader = StreamReader(connection, self._stream, direct=self._stream in facts.direct)
        self._clock = clock

    async def put(self, artifact_id: str, artifact: StoredArtifact) -> None:
        if len(artifact.data) > MAX_ARTIFACT_BYTES:
            raise RequestTooLarge(f"an artifact may have at most {MAX_ARTIFACT_BYTES} bytes")
        digest = hashlib.sha256(artifact.data).digest()
        request, _, rest = artifact_id.partition("-")
        wanted = _Meta(
            nuid=f"{request}.{rest}.{digest.hex()}",
            digest=_DIGEST + base64.urlsafe_b64encode(digest).decode(),
            headers={_MEDIA_TYPE: [artifact.media_type]},
        )
        if await self._meta(artifact_id) == wanted:
            return
        # Refused when it is there already, which is as good.
        content = subjects.object_piece(self._bucket, wanted.nuid)
        await self._connection.store(content, artifact.data, [(subjects.EXPECTED_LAST, 0)], again=True)
        meta = self._plain(artifact_id, wanted, len(artifact.data))
        subject = subjects.object_meta(self._bucket, artifact_id)
        await self._connection.store(subject, orjson.dumps(meta), [(subjects.ROLLUP, "sub")], again=True)

    async def get(self, artifact_id: str) -> StoredArtifact | None:
        meta = await self._meta(artifact_id)
        if meta is None:
            return None
        stored = await self._reader.last(subjects.object_piece(self._bucket, meta.nuid))
        data = b"" if stored is None else stored.data
        if stored is None or meta.digest != _DIGEST + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode():
            if await self._meta(artifact_id) != meta:
                return None  # removed meanwhile
            raise InternalError("the stored bytes of an artifact are damaged", artifact_id=artifact_id)
        return StoredArtifact(media_type=meta.headers[_MEDIA_TYPE][0], data=data)

    async def delete_of(self, request_id: RunId) -> None:
        # In this order: what a crash leaves behind is found again by its content.
        every = subjects.object_piece(self._bucket, f"{ulid_of(request_id)}.>")
        info = await self._connection.api(subjects.stream_info(self._stream), {"subjects_filter": every})
        found = info["state"].get("subjects") or {}
        for artifact_id in {_id_in(subject) for subject in found}:
            await self._purge(subjects.object_meta(self._bucket, artifact_id))
        if found:
            await self._purge(every)

    async def _purge(self, subject: str) -> None:
        await self._connection.api(subjects.stream_purge(self._stream), {"filter": subject})

    async def _meta(self, artifact_id: str) -> _Meta | None:
        message = await self._reader.last(subjects.object_meta(self._bucket, artifact_id))
        if message is None:
            return None
        try:
            return msgspec.json.decode(message.data, type=_Meta)
        except msgspec.DecodeError:
            return None  # another client has deleted or replaced it

    def _plain(self, artifact_id: str, meta: _Meta, size: int) -> dict[str, Any]:
        at = datetime.fromtimestamp(self._clock.now(), UTC).isoformat().replace("+00:00", "Z")
        return {
            **msgspec.to_builtins(meta),
            "name": artifact_id,
            "options": {"max_chunk_size": MAX_ARTIFACT_BYTES},
            "bucket": self._bucket,
            "size": size,
            "mtime": at,
            "chunks": 1,
        }


def _id_in(subject: str) -> str:
    """The artifact whose content has this subject."""
    request, rest, _digest = subject.split(".")[-3:]
    return f"{request}-{rest}"
