"""Consumers: the durable one that the workers of a tag share, and short-lived ones to read a stream from a position."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.failures import Refused
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerUnavailable, InvalidUsage

logger = logging.getLogger(__name__)

NS = 1_000_000_000
# A reader that was killed leaves its consumer behind for so long.
INACTIVE_SEC = 30

ConsumerConfig = dict[str, Any]


async def ensure_worker_consumer(connection: Connection, config: NatsBackendConfig, tag: str) -> ConsumerConfig:
    """The real settings of the tag's durable consumer; one that is there stays as it is."""
    stream, name = config.work_stream, subjects.worker_consumer(tag)
    try:
        return await _look(connection, stream, name)
    except Refused as refused:
        if refused.number != failures.CONSUMER_NOT_FOUND:
            raise
    wanted = {
        "name": name,
        "durable_name": name,
        "filter_subject": subjects.Subjects(config).work(tag),
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(config.consumer_ack_wait_sec * NS),
        "max_deliver": config.consumer_max_deliver,
        "max_ack_pending": config.consumer_max_ack_pending,
        "replay_policy": "instant",
    }
    try:
        return await _create(connection, stream, wanted)
    except Refused as refused:
        if refused.number == failures.CONSUMER_NOT_UNIQUE:
            raise InvalidUsage(
                f"another consumer of {stream} already takes the jobs of tag {tag!r}; remove it, or use another tag"
            ) from refused
        if refused.number not in failures.CONSUMER_EXISTS:
            raise
        return await _look(connection, stream, name)  # another worker was faster, with other settings


async def create_reader(
    connection: Connection,
    stream: str,
    *,
    after: int | None = None,
    filter_subject: str = "",
    headers_only: bool = False,
) -> tuple[str, int]:
    """A short-lived consumer behind a sequence (None: the last message of each subject); its name and what it has."""
    wanted: ConsumerConfig = {
        "name": f"pyoco-reader-{secrets.token_hex(8)}",
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": INACTIVE_SEC * NS,
        "headers_only": headers_only,
    }
    if filter_subject:
        wanted["filter_subject"] = filter_subject
    if after is None:
        wanted["deliver_policy"] = "last_per_subject"
    else:
        wanted |= {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
    body = {"stream_name": stream, "config": wanted, "action": "create"}
    info = await connection.api(subjects.consumer_create(stream, wanted["name"]), body)
    return wanted["name"], info["num_pending"]


async def delete_reader(connection: Connection, stream: str, name: str) -> None:
    """Spare the broker the wait until it notices by itself; no harm when it cannot be told."""
    if not connection.connected:
        return
    try:
        await connection.request(subjects.consumer_delete(stream, name))
    except BrokerUnavailable as error:
        logger.debug("reader left behind", extra={"stream": stream, "error": error.detail})


async def _look(connection: Connection, stream: str, name: str) -> ConsumerConfig:
    found: ConsumerConfig = (await connection.api(subjects.consumer_info(stream, name)))["config"]
    return found


async def _create(connection: Connection, stream: str, wanted: ConsumerConfig) -> ConsumerConfig:
    body = {"stream_name": stream, "config": wanted, "action": "create"}
    created: ConsumerConfig = (await connection.api(subjects.consumer_create(stream, wanted["name"]), body))["config"]
    return created
