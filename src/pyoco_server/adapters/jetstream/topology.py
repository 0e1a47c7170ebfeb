"""The streams and buckets as data, and their creation; an existing one is never changed.

The operator's settings of an existing stream (replicas, limits, ages) are respected. `Facts` holds what the adapters
need to know of the real streams.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from pyoco_server.adapters.jetstream import failures, refusals
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import NoResponders, RequestRejected
from pyoco_server.adapters.jetstream.refusals import JetStreamDisabled
from pyoco_server.adapters.jetstream.subjects import (
    bucket_key,
    bucket_stream,
    every_object_meta,
    object_piece,
    object_stream,
    stream_create,
    stream_info,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidUsage, Unanswered
from pyoco_server.ports import Durability

logger = logging.getLogger(__name__)

NS = 1_000_000_000
DUPLICATE_WINDOW_SEC = 120
# The first with batched direct gets and message TTLs; an older server silently ignores unknown fields.
OLDEST_SERVER = (2, 11)
REPLICATED_FROM = 3
# Longer than a ticket is valid, by clocks that differ.
TICKETS_KEPT_SEC = 60
MAX_TICKETS = 100_000

StreamConfig = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The real settings: `direct` and `message_ttl` name the streams that allow direct gets and message TTLs."""

    replicas: int
    durability: Durability
    direct: frozenset[str]
    message_ttl: frozenset[str]


def streams(config: NatsBackendConfig) -> tuple[StreamConfig, ...]:
    """Every stream of this version, buckets included, as the broker's API takes them."""
    events, logs, stored = config.events_subject_prefix, config.logs_subject_prefix, config.stored_subject_prefix
    return (
        # A full event store rejects; dropping the oldest event would change the history of a run.
        _stream(
            config,
            config.events_stream,
            f"{events}.*",
            discard="new",
            republish={"src": f"{events}.*", "dest": f"{stored}.{{{{wildcard(1)}}}}"},
        ),
        # Republished without the lines: followers of a log read them from the stream.
        _stream(
            config,
            config.logs_stream,
            f"{logs}.*",
            discard="new",
            republish={"src": f"{logs}.*", "dest": f"{stored}.log.{{{{wildcard(1)}}}}", "headers_only": True},
        ),
        _stream(config, config.work_stream, f"{config.work_subject_prefix}.>", retention="workqueue", discard="new"),
        _stream(
            config,
            config.dlq_stream,
            f"{config.dlq_subject_prefix}.>",
            discard="old",
            max_age=int(config.dlq_max_age_sec * NS),
            max_msgs=config.dlq_max_msgs or -1,
            max_bytes=config.dlq_max_bytes or -1,
        ),
        _bucket(config, config.runs_kv_bucket),
        _bucket(config, config.workers_kv_bucket),
        _bucket(config, config.auth_kv_bucket),
        _bucket(config, config.graphs_kv_bucket),
        _bucket(config, config.strategies_kv_bucket),
        _bucket(config, config.wheel_history_kv_bucket, max_age=int(config.wheel_history_ttl_sec * NS), discard="old"),
        # A full bucket rejects: forgetting a request early would allow it to run twice.
        _bucket(config, config.idempotency_kv_bucket, max_age=int(config.idempotency_ttl_sec * NS)),
        # A full bucket drops its oldest tickets: they are valid for seconds only.
        _bucket(config, config.tickets_kv_bucket, max_age=TICKETS_KEPT_SEC * NS, max_msgs=MAX_TICKETS, discard="old"),
        _object_store(config, config.wheel_object_store_bucket),
        _object_store(config, config.artifact_object_store_bucket),
        _bucket(config, config.signing_keys_kv_bucket),
    )


async def ensure_resources(connection: Connection, config: NatsBackendConfig, *, fsynced: bool = False) -> Facts:
    """Create missing streams; processes may do so concurrently. `fsynced`: the server syncs before each ack."""
    if connection.server_version < OLDEST_SERVER:
        found = ".".join(map(str, connection.server_version))
        raise InvalidUsage(f"nats-server {found} is too old; needed: {'.'.join(map(str, OLDEST_SERVER))} or newer")
    try:
        real = [await _ensure(connection, wanted, config) for wanted in streams(config)]
    except NoResponders as error:
        # Without JetStream of its own a leaf node may still lead to that of another server.
        if connection.has_jetstream:
            raise
        raise JetStreamDisabled("nats answers, but runs without JetStream") from error
    except Unanswered as error:
        raise refusals.of_silence(connection.last_error) or error from error
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


async def _ensure(connection: Connection, wanted: StreamConfig, config: NatsBackendConfig) -> StreamConfig:
    """The stream's real settings; rejects a stream of the same name for other subjects."""
    name = wanted["name"]
    try:
        real = await _look(connection, name)
    except RequestRejected as rejected:
        if rejected.err_code != failures.STREAM_NOT_FOUND:
            raise refusals.of_stream(rejected, name, config, wanted["max_bytes"]) or rejected from rejected
        real = await _create(connection, wanted, config)
    if not set(wanted["subjects"]) <= set(real.get("subjects") or ()):
        raise InvalidUsage(
            f"there is a stream {name!r} for other subjects: {real.get('subjects')} instead of {wanted['subjects']}; "
            "rename ours (see docs/reference/settings.md) or remove that one",
            stream=name,
        )
    for setting in ("retention", "republish", "max_msgs_per_subject"):
        if real.get(setting) != wanted.get(setting):
            logger.warning("stream settings differ", extra={"stream": name, "setting": setting})
    return real


async def _look(connection: Connection, name: str) -> StreamConfig:
    info: StreamConfig = (await connection.api(stream_info(name)))["config"]
    return info


async def _create(connection: Connection, wanted: StreamConfig, config: NatsBackendConfig) -> StreamConfig:
    name = wanted["name"]
    try:
        created: StreamConfig = (await connection.api(stream_create(name), wanted))["config"]
    except RequestRejected as rejected:
        if rejected.err_code == failures.STREAM_NAME_IN_USE:
            return await _look(connection, name)  # created by another process meanwhile, with other settings
        if rejected.err_code == failures.SUBJECTS_OVERLAP:
            raise InvalidUsage(
                f"another stream already takes subjects of {name!r} ({wanted['subjects']}); "
                "rename ours (see docs/reference/settings.md) or remove that one",
                stream=name,
            ) from rejected
        if (refusal := refusals.of_stream(rejected, name, config, wanted["max_bytes"])) is not None:
            raise refusal from rejected
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
        # The broker rejects a window longer than the maximum age.
        "duplicate_window": min(window, max_age) if max_age else window,
        "deny_delete": False,
        "deny_purge": False,
    } | settings


def _bucket(config: NatsBackendConfig, bucket: str, **settings: Any) -> StreamConfig:
    usual: StreamConfig = {
        "discard": "new",
        "max_msgs_per_subject": 1,
        "allow_rollup_hdrs": True,
        "allow_msg_ttl": True,
    }
    return _stream(config, bucket_stream(bucket), bucket_key(bucket, ">"), **usual | settings)


def _object_store(config: NatsBackendConfig, bucket: str) -> StreamConfig:
    """The layout of every NATS client (ADR-20), so that NATS tools can read our object store."""
    subjects = [object_piece(bucket, ">"), every_object_meta(bucket)]
    settings: StreamConfig = {"discard": "new", "allow_rollup_hdrs": True, "allow_msg_ttl": True}
    return _stream(config, object_stream(bucket), "", **settings) | {"subjects": subjects}
