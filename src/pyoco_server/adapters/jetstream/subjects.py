"""Names of subjects, streams, consumers and headers that are not settings."""

from __future__ import annotations

import base64

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import InstanceId

API = "$JS.API"

# Headers that the broker understands.
MSG_ID = "Nats-Msg-Id"
EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_OF = "Nats-Expected-Last-Subject-Sequence-Subject"
ROLLUP = "Nats-Rollup"
TTL = "Nats-TTL"
KV_OPERATION = "KV-Operation"

# Headers that the broker adds.
SEQUENCE = "Nats-Sequence"
SUBJECT = "Nats-Subject"
NUM_PENDING = "Nats-Num-Pending"
LAST_SEQUENCE = "Nats-Last-Sequence"
PENDING_MESSAGES = "Nats-Pending-Messages"
MARKER_REASON = "Nats-Marker-Reason"

# Our own: the sequence of EXECUTION_CREATED. It distinguishes the job of a removed run from a foreign producer's.
CREATED = "Pyoco-Created"


def stream_create(stream: str) -> str:
    return f"{API}.STREAM.CREATE.{stream}"


def stream_info(stream: str) -> str:
    return f"{API}.STREAM.INFO.{stream}"


def stream_purge(stream: str) -> str:
    return f"{API}.STREAM.PURGE.{stream}"


def message_delete(stream: str) -> str:
    return f"{API}.STREAM.MSG.DELETE.{stream}"


def max_deliveries_advisory(stream: str) -> str:
    """Where the broker reports that a message of the stream has used up its deliveries."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.>"


def message_get(stream: str) -> str:
    """A read answered by the stream's leader."""
    return f"{API}.STREAM.MSG.GET.{stream}"


def direct_get(stream: str) -> str:
    """A read answered by any replica."""
    return f"{API}.DIRECT.GET.{stream}"


def consumer_info(stream: str, consumer: str) -> str:
    return f"{API}.CONSUMER.INFO.{stream}.{consumer}"


def consumer_create(stream: str, consumer: str) -> str:
    return f"{API}.CONSUMER.CREATE.{stream}.{consumer}"


def consumer_delete(stream: str, consumer: str) -> str:
    return f"{API}.CONSUMER.DELETE.{stream}.{consumer}"


def consumer_next(stream: str, consumer: str) -> str:
    return f"{API}.CONSUMER.MSG.NEXT.{stream}.{consumer}"


def bucket_stream(bucket: str) -> str:
    """The stream behind a key-value bucket."""
    return f"KV_{bucket}"


def bucket_key(bucket: str, key: str) -> str:
    """The subject of a key of a bucket; the key may be a wildcard."""
    return f"$KV.{bucket}.{key}"


def object_stream(bucket: str) -> str:
    """The stream behind an object store."""
    return f"OBJ_{bucket}"


def object_piece(bucket: str, nuid: str) -> str:
    """The subject of all pieces of one upload; the upload may be a wildcard."""
    return f"$O.{bucket}.C.{nuid}"


def object_meta(bucket: str, name: str) -> str:
    """The subject of the metadata of a name, which may contain any characters."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def every_object_meta(bucket: str) -> str:
    return f"$O.{bucket}.M.>"


def worker_consumer(tag: str) -> str:
    """The durable consumer that all workers of a tag share."""
    return f"pyoco-worker-{tag}"


def signal_subject(instance_id: InstanceId) -> str:
    """Where one worker instance listens for signals."""
    return f"pyoco.tell.{instance_id}"


def work_subject(config: NatsBackendConfig, tag: str) -> str:
    """The subject of a tag's jobs; the tag may be a wildcard."""
    return f"{config.work_subject_prefix}.{tag}"


def last_token(subject: str) -> str:
    """The last part of a subject: a run id, a tag or an upload (none of them has dots)."""
    return subject.rpartition(".")[2]
