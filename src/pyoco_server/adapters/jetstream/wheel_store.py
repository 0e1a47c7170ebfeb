"""Wheels in a JetStream object store, laid out as every client of NATS does it (ADR-20).

    $O.<bucket>.C.<nuid>   the pieces of one upload
    $O.<bucket>.M.<name>   the metadata of a name: the upload, its size, its SHA-256, its tags

A wheel exists when its metadata message does: the pieces are stored first, and those of an upload never change, so a
reader never gets a partial or mixed wheel. Metadata is written by compare-and-set on the metadata of *all* names, so
`admit` decides on the current state across gateways. Uploads are rare enough for that.

Pieces without metadata belong to an upload in progress, or to one whose gateway was killed. The latter are removed by
the next upload or deletion, once nothing was added to them for a while.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import orjson

from pyoco_server.adapters.jetstream import subjects
from pyoco_server.adapters.jetstream.broker import MARKER_TTL_SEC
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.pieces import PIECE_BYTES, Pieces, PiecesMissing, Written
from pyoco_server.adapters.jetstream.pull import stored_at
from pyoco_server.adapters.jetstream.reads import Followed, read_present, stream_state
from pyoco_server.adapters.jetstream.topology import Facts
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.wheels.wheel import Wheel, split_object_name
from pyoco_server.errors import AppendConflict, BrokerUnavailable, WheelCorrupt, WheelNotFound
from pyoco_server.ports import Clock

logger = logging.getLogger(__name__)

TAGS_HEADER = "Pyoco-Wheel-Tags"
# An upload in progress adds a piece every few milliseconds: its bytes come from a disk.
QUIET_SEC = 600.0
MAX_RACES = 50
RACE_PAUSE_SEC = 0.01
_DIGEST = "SHA-256="
_NUID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class _Meta(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of a name; `wheel` is None when it was deleted, or is an object without bytes."""

    sequence: int
    wheel: Wheel | None
    pieces: int


class JetStreamWheelStore:
    """WheelStore."""

    def __init__(
        self,
        connection: Connection,
        config: NatsBackendConfig,
        facts: Facts,
        clock: Clock,
        *,
        quiet_sec: float = QUIET_SEC,
    ) -> None:
        self._connection = connection
        self._bucket = config.wheel_object_store_bucket
        self._stream = subjects.object_stream(self._bucket)
        self._marker_ttl = self._stream in facts.message_ttl
        self._clock = clock
        self._quiet_sec = quiet_sec
        self._pieces = Pieces(connection, self._bucket)

    async def all(self) -> Sequence[Wheel]:
        return _wheels(await self._metas())

    async def get(self, name: str) -> Wheel | None:
        meta = await self._meta(name)
        return None if meta is None else meta.wheel

    async def put(
        self,
        name: str,
        chunks: AsyncIterator[bytes],
        *,
        tags: Sequence[str],
        admit: Callable[[Sequence[Wheel]], None] | None = None,
    ) -> Wheel:
        nuid = secrets.token_hex(11)
        try:
            written = await self._pieces.write(nuid, chunks)
        except BaseException:
            await self._forget(nuid)
            raise
        value = self._value(name, nuid, written, tags)
        replaced = await self._register(name, nuid, value, written, admit)
        if replaced is not None:
            await self._forget(replaced.nuid)
        await self._sweep()
        return _wheel(orjson.loads(value), self._bucket, 0.0)

    async def read(self, wheel: Wheel) -> AsyncGenerator[bytes, None]:
        meta = await self._meta(wheel.object_name)
        if meta is None or meta.wheel is None or meta.wheel.nuid != wheel.nuid:
            raise WheelNotFound(wheel=wheel.name)
        digest, size, held = hashlib.sha256(), 0, b""
        try:
            async for piece in self._pieces.read(wheel.nuid, meta.pieces):
                if held:
                    yield held
                digest.update(piece)
                size, held = size + len(piece), piece
        except PiecesMissing as missing:
            present = await self.get(wheel.object_name)
            if present is None or present.nuid != wheel.nuid:
                raise WheelNotFound(wheel=wheel.name) from missing
            raise WheelCorrupt(wheel=wheel.name) from missing
        if size != meta.wheel.size_bytes or meta.wheel.sha256_hex not in (None, digest.hexdigest()):
            raise WheelCorrupt(wheel=wheel.name)
        if held:
            yield held

    async def delete(self, wheel: Wheel) -> bool:
        meta = await self._meta(wheel.object_name)
        if meta is None or meta.wheel is None or meta.wheel.nuid != wheel.nuid:
            return False
        what = {"name": wheel.object_name, "bucket": self._bucket, "nuid": wheel.nuid}
        gone = what | {"size": 0, "chunks": 0, "deleted": True}
        pairs: list[tuple[str, object]] = [(subjects.EXPECTED_LAST, meta.sequence)]
        if self._marker_ttl:
            pairs.append((subjects.TTL, f"{MARKER_TTL_SEC}s"))
        stored = await self._store(wheel.object_name, orjson.dumps(gone | {"mtime": self._now()}), pairs)
        if not stored:
            present = await self._meta(wheel.object_name)
            # Rejected although no other writer was there: an earlier attempt was stored and its ack was lost.
            stored = present is not None and present.wheel is None
        if stored:
            await self._forget(wheel.nuid)
            await self._sweep()
        return stored

    async def _register(
        self, name: str, nuid: str, value: bytes, written: Written, admit: Callable[[Sequence[Wheel]], None] | None
    ) -> Wheel | None:
        """Register the upload under its name; returns the one it replaces."""
        replaced: Wheel | None = None
        in_doubt = False  # whether the metadata may be stored: then its pieces must stay
        try:
            for _ in range(MAX_RACES):
                metas = await self._metas()
                present = metas.get(subjects.object_meta(self._bucket, name))
                if present is not None and present.wheel is not None and present.wheel.nuid == nuid:
                    return replaced  # stored by an attempt whose ack was lost
                in_doubt = False
                if admit is not None:
                    admit(_wheels(metas))
                await self._check_whole(nuid, written)
                replaced = None if present is None else present.wheel
                in_doubt = True
                if await self._store(name, value, self._unless_changed_since(metas)):
                    return replaced
                await asyncio.sleep(RACE_PAUSE_SEC)
        except BaseException:
            if not in_doubt:
                await self._forget(nuid)
            raise
        raise AppendConflict(wheel=name)

    async def _check_whole(self, nuid: str, written: Written) -> None:
        """After a long pause of this gateway, another one may have removed its pieces as abandoned."""
        if await self._pieces.count(nuid) != written.pieces:
            raise BrokerUnavailable("pieces of the upload are missing; upload it again")

    def _unless_changed_since(self, metas: Mapping[str, _Meta]) -> list[tuple[str, object]]:
        """Headers that let a message be stored only if no metadata of any name has changed since."""
        latest = max((meta.sequence for meta in metas.values()), default=0)
        every = subjects.every_object_meta(self._bucket)
        return [(subjects.EXPECTED_LAST, latest), (subjects.EXPECTED_LAST_OF, every)]

    async def _store(self, name: str, value: bytes, pairs: list[tuple[str, object]]) -> bool:
        """Replace the metadata of a name, if the condition in the headers holds."""
        subject = subjects.object_meta(self._bucket, name)
        return await self._connection.store(subject, value, [(subjects.ROLLUP, "sub"), *pairs], again=True) is not None

    async def _forget(self, nuid: str) -> None:
        """Remove the pieces of an unreferenced upload; best effort, a later sweep removes the rest."""
        try:
            await self._pieces.purge(nuid)
        except BrokerUnavailable as error:
            logger.warning("pieces of an upload left behind", extra={"nuid": nuid, "error": error.detail})

    async def _sweep(self) -> None:
        """Remove the pieces that killed gateways left behind."""
        try:
            # In this order: an upload registered in between is found registered.
            uploads = await self._pieces.upload_ids()
            known = {wheel.nuid for wheel in _wheels(await self._metas())}
            await self._pieces.purge_idle(uploads - known, quiet_sec=self._quiet_sec)
        except BrokerUnavailable as error:
            logger.warning("sweep of unfinished uploads failed", extra={"error": error.detail})

    async def _metas(self) -> dict[str, _Meta]:
        """The metadata of every name by subject, deletions included: their sequences count for compare-and-set."""
        found = await self._present(subjects.every_object_meta(self._bucket))
        # A name that was changed during the read is there twice; the later message counts.
        return {item.message.subject.decode(): self._read_meta(item) for item in found}

    async def _meta(self, name: str) -> _Meta | None:
        found = await self._present(subjects.object_meta(self._bucket, name))
        return self._read_meta(found[-1]) if found else None

    async def _present(self, subject: str) -> list[Followed]:
        # Asked first, because it is answered at once or not at all, and most registries are empty.
        if not (await stream_state(self._connection, self._stream)).messages:
            return []
        return await read_present(self._connection, self._stream, filter_subject=subject)

    def _read_meta(self, item: Followed) -> _Meta:
        wheel, pieces = None, 0
        try:
            plain = orjson.loads(item.message.data)
            link = (plain.get("options") or {}).get("link")
            if not plain.get("deleted") and link is None:
                wheel = _wheel(plain, self._bucket, stored_at(item.message.reply))
                pieces = int(plain.get("chunks") or 0)
        except (ValueError, KeyError, TypeError, AttributeError):
            if not item.message.header(subjects.MARKER_REASON):
                logger.warning("object cannot be read", extra={"stream": self._stream, "sequence": item.sequence})
        return _Meta(sequence=item.sequence, wheel=wheel, pieces=pieces)

    def _value(self, name: str, nuid: str, written: Written, tags: Sequence[str]) -> bytes:
        return orjson.dumps(
            {
                "name": name,
                "headers": {TAGS_HEADER: [",".join(tags)]} if tags else {},
                "options": {"max_chunk_size": PIECE_BYTES},
                "bucket": self._bucket,
                "nuid": nuid,
                "size": written.size_bytes,
                "mtime": self._now(),
                "chunks": written.pieces,
                "digest": _DIGEST + base64.urlsafe_b64encode(written.sha256).decode(),
            }
        )

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).isoformat().replace("+00:00", "Z")


def _wheels(metas: Mapping[str, _Meta]) -> list[Wheel]:
    found = [meta.wheel for meta in metas.values() if meta.wheel is not None]
    return sorted(found, key=lambda wheel: wheel.object_name)


def _wheel(plain: Mapping[str, Any], bucket: str, stored: float) -> Wheel:
    nuid = str(plain["nuid"])
    if not _NUID.fullmatch(nuid):
        # It becomes part of subjects: with a wildcard in it, deleting this upload would delete all.
        raise ValueError("invalid upload id")
    name, tenant_id = split_object_name(str(plain["name"]))
    tags = ",".join((plain.get("headers") or {}).get(TAGS_HEADER) or ())
    return Wheel(
        name=name,
        tenant_id=tenant_id,
        size_bytes=int(plain.get("size") or 0),
        bucket=bucket,
        nuid=nuid,
        modified=_modified(plain.get("mtime"), stored),
        sha256_hex=_sha256_hex(plain.get("digest")),
        tags=tuple(tag for tag in tags.split(",") if tag),
    )


def _modified(said: object, stored: float) -> float:
    """The time of the upload; other clients omit it or send the year 1, and the message's time counts."""
    try:
        moment = datetime.fromisoformat(said) if isinstance(said, str) else None
    except ValueError:
        moment = None
    return stored if moment is None or moment.year == 1 else moment.timestamp()


def _sha256_hex(digest: object) -> str | None:
    if not isinstance(digest, str) or not digest.startswith(_DIGEST):
        return None
    try:
        return base64.urlsafe_b64decode(digest.removeprefix(_DIGEST)).hex()
    except binascii.Error:
        return None
