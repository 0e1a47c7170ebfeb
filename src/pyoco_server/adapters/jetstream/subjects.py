"""Names of subjects, streams, consumers and headers that are not settings."""

from __future__ import annotations

import base64

from pyoco_server.domain.ids import InstanceId

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


stream_create = "$JS.API.STREAM.CREATE.{}".format
stream_info = "$JS.API.STREAM.INFO.{}".format
stream_purge = "$JS.API.STREAM.PURGE.{}".format
message_delete = "$JS.API.STREAM.MSG.DELETE.{}".format
message_get = "$JS.API.STREAM.MSG.GET.{}".format  # answered by the stream's leader
direct_get = "$JS.API.DIRECT.GET.{}".format  # answered by any replica
consumer_info = "$JS.API.CONSUMER.INFO.{}.{}".format  # stream and consumer, as below
consumer_create = "$JS.API.CONSUMER.CREATE.{}.{}".format
consumer_delete = "$JS.API.CONSUMER.DELETE.{}.{}".format
consumer_next = "$JS.API.CONSUMER.MSG.NEXT.{}.{}".format


def max_deliveries_advisory(stream: str) -> str:
    """Where the broker reports that a message of the stream has used up its deliveries."""
    return f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.>"


def bucket_stream(bucket: str) -> str:
    return f"KV_{bucket}"


def bucket_key(bucket: str, key: str) -> str:
    """The subject of a key of a bucket; the key may be a wildcard."""
    return f"$KV.{bucket}.{key}"


def object_stream(bucket: str) -> str:
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


def presence_subject(stored_prefix: str, gateway: str) -> str:
    """Where one gateway announces itself; the gateway may be a wildcard."""
    return f"{stored_prefix}.gateway.{gateway}"


def last_token(subject: str) -> str:
    """The last part of a subject: a run id, a tag or an upload (none of them has dots)."""
    return subject.rpartition(".")[2]
