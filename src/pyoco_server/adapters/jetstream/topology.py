"""The streams and buckets there are, as data, and their creation; never changes one that is there.

What an operator has set on an existing stream (replicas, limits, ages) is respected. What we then need to know of the
real thing is in `Facts`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyoco_server.adapters.jetstream import failures
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import Refused
from pyoco_server.adapters.jetstream.subjects import (
    Subjects,
    bucket_key,
    every_object_meta,
    object_piece,
    stream_create,
    stream_info,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidUsage
from pyoco_server.ports import Durability

logger = logging.getLogger(__name__)

NS = 1_000_000_000
DUPLICATE_WINDOW_SEC = 120
# Batched direct gets and message TTLs came with it; an older server ignores the fields it does not know, silently.
OLDEST_SERVER = (2, 11)
REPLICATED_FROM = 3
# Longer than a ticket is good for, by clocks that differ.
TICKETS_KEPT_SEC = 60
MOST_TICKETS = 100_000

StreamConfig = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is really there: `direct` and `message_ttl` name the streams that allow direct gets and message TTLs."""

    replicas: int
    durability: Durability
    direct: frozenset[str]
    message_ttl: frozenset[str]


def streams(config: NatsBackendConfig) -> tuple[StreamConfig, ...]:
    """Every stream of this version, buckets included, as the broker's API takes them."""
    names = Subjects(config)
    return (
        # A full event store refuses; forgetting the oldest would make another story of a run.
        _stream(
            config,
            config.events_stream,
            names.event("*"),
            discard="new",
            republish={"src": names.event("*"), "dest": names.stored("{{wildcard(1)}}")},
        ),
        # Told without the lines themselves: whoever follows a log reads what it has not read yet.
        _stream(
            config,
            config.logs_stream,
            names.log("*"),
            discard="new",
            republish={"src": names.log("*"), "dest": names.log_stored("{{wildcard(1)}}"), "headers_only": True},
        ),
        _stream(config, config.work_stream, names.work(">"), retention="workqueue", discard="new"),
        _stream(
            config,
            config.dlq_stream,
            names.dead_letter(">"),
            discard="old",
            max_age=int(config.dlq_max_age_sec * NS),
            max_msgs=config.dlq_max_msgs or -1,
            max_bytes=config.dlq_max_bytes or -1,
        ),
        _bucket(config, names.runs_stream, names.run_key(">")),
        _bucket(config, names.workers_stream, names.worker_key(">")),
        _bucket(config, names.api_keys_stream, names.api_key(">")),
        _bucket(config, names.graphs_stream, bucket_key(config.graphs_kv_bucket, ">")),
        _bucket(
            config,
            names.wheel_history_stream,
            names.wheel_event_key(">"),
            max_age=int(config.wheel_history_ttl_sec * NS),
            discard="old",
        ),
        # A full one refuses: to forget a request before its time would be to do it twice.
        _bucket(
            config,
            names.idempotency_stream,
            names.idempotency_record(">"),
            max_age=int(config.idempotency_ttl_sec * NS),
        ),
        # Of too many the oldest go: they are lent for a moment, and who asked for a hundred thousand uses none of them.
        _bucket(
            config,
            names.tickets_stream,
            names.ticket(">"),
            max_age=TICKETS_KEPT_SEC * NS,
            max_msgs=MOST_TICKETS,
            discard="old",
        ),
        _object_store(config, names.wheels_stream, config.wheel_object_store_bucket),
    )


async def ensure_resources(connection: Connection, config: NatsBackendConfig, *, fsynced: bool = False) -> Facts:
    """Create what is missing; many processes may do so at once. `fsynced`: the server syncs before it acknowledges."""
    if connection.server_version < OLDEST_SERVER:
        found = ".".join(map(str, connection.server_version))
        raise InvalidUsage(f"nats-server {found} is too old; needed: {'.'.join(map(str, OLDEST_SERVER))} or newer")
    real = [await _ensure(connection, wanted) for wanted in streams(config)]
    replicas = min(stream.get("num_replicas", 1) for stream in real)
    return Facts(
        replicas=replicas,
        durability=_durability(replicas, fsynced=fsynced),
        # Replicas lag: with more than one, a direct get can miss the caller's own last write.
        direct=_names(stream for stream in real if stream.get("allow_direct") and stream.get("num_replicas", 1) == 1),
        message_ttl=_names(stream for stream in real if stream.get("allow_msg_ttl")),
    )


def _names(chosen: Any) -> frozenset[str]:
    return frozenset(stream["name"] for stream in chosen)


def _durability(replicas: int, *, fsynced: bool) -> Durability:
    if replicas >= REPLICATED_FROM:
        return "replicated"
    return "fsynced" if fsynced else "buffered"


async def _ensure(connection: Connection, wanted: StreamConfig) -> StreamConfig:
    """The stream's real settings; refuses one of the same name that was made for something else."""
    name = wanted["name"]
    try:
        real = await _look(connection, name)
    except Refused as refused:
        if refused.number != failures.STREAM_NOT_FOUND:
            raise
        real = await _create(connection, wanted)
    if not set(wanted["subjects"]) <= set(real.get("subjects") or ()):
        raise InvalidUsage(
            f"there is a stream {name!r} for other subjects: {real.get('subjects')} instead of {wanted['subjects']}; "
            "rename ours (see docs/reference/settings.md) or remove that one",
            stream=name,
        )
    for setting in ("retention", "republish", "max_msgs_per_subject"):
        if real.get(setting) != wanted.get(setting):
            logger.warning("stream differs from what it should be", extra={"stream": name, "setting": setting})
    return real


async def _look(connection: Connection, name: str) -> StreamConfig:
    info: StreamConfig = (await connection.api(stream_info(name)))["config"]
    return info


async def _create(connection: Connection, wanted: StreamConfig) -> StreamConfig:
    name = wanted["name"]
    try:
        created: StreamConfig = (await connection.api(stream_create(name), wanted))["config"]
    except Refused as refused:
        if refused.number == failures.STREAM_NAME_IN_USE:
            return await _look(connection, name)  # another process was faster, with other settings
        if refused.number == failures.SUBJECTS_OVERLAP:
            raise InvalidUsage(
                f"another stream already takes subjects of {name!r} ({wanted['subjects']}); "
                "rename ours (see docs/reference/settings.md) or remove that one",
                stream=name,
            ) from refused
        if refused.number == failures.TOO_LITTLE_STORAGE:
            raise InvalidUsage(
                f"the broker has too little storage for the stream {name!r} (it reserves {wanted['max_bytes']} bytes); "
                "free some disk space, or lower PYOCO_DLQ_MAX_BYTES",
                stream=name,
            ) from refused
        raise
    else:
        logger.info("stream created", extra={"stream": name})
        return created


def _stream(config: NatsBackendConfig, name: str, subject: str, *, max_age: int = 0, **settings: Any) -> StreamConfig:
    window = DUPLICATE_WINDOW_SEC * NS
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "storage": config.nats_storage,
        "num_replicas": config.nats_replicas,
        "allow_direct": config.nats_replicas == 1,
        "compression": "none",
        "max_age": max_age,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msgs_per_subject": -1,
        # The broker refuses one that is longer than what is kept.
        "duplicate_window": min(window, max_age) if max_age else window,
        "deny_delete": False,
        "deny_purge": False,
    } | settings


def _bucket(config: NatsBackendConfig, name: str, subject: str, **settings: Any) -> StreamConfig:
    usual: StreamConfig = {
        "discard": "new",
        "max_msgs_per_subject": 1,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
    }
    return _stream(config, name, subject, **usual | settings)


def _object_store(config: NatsBackendConfig, name: str, bucket: str) -> StreamConfig:
    """As every client of NATS lays out an object store (ADR-20), so that its own tools can read ours."""
    stream = _stream(config, name, object_piece(bucket, ">"), discard="new", allow_rollup_hdrs=True, allow_msg_ttl=True)
    return stream | {"subjects": [object_piece(bucket, ">"), every_object_meta(bucket)]}
