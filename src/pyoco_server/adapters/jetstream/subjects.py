"""The only place where a subject, a stream, a consumer or a header of NATS is spelled; decides nothing."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import KeyId
from pyoco_server.domain.auth.tickets import TicketKey
from pyoco_server.domain.idempotency.keys import RecordKey
from pyoco_server.domain.ids import InstanceId, RunId, WorkerId

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

# Our own: the sequence of EXECUTION_CREATED, so that a worker can tell a run that was removed from a foreign job.
CREATED = "Pyoco-Created"


def stream_create(stream: str) -> str:
    return f"{API}.STREAM.CREATE.{stream}"


def stream_info(stream: str) -> str:
    return f"{API}.STREAM.INFO.{stream}"


def stream_purge(stream: str) -> str:
    return f"{API}.STREAM.PURGE.{stream}"


def message_delete(stream: str) -> str:
    return f"{API}.STREAM.MSG.DELETE.{stream}"


def given_up(stream: str) -> str:
    """Where the broker says that it gave up a message, for every consumer of the stream."""
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
    """The subject that says what is stored under a name, which may have any signs."""
    return f"$O.{bucket}.M.{base64.urlsafe_b64encode(name.encode()).decode()}"


def every_object_meta(bucket: str) -> str:
    return f"$O.{bucket}.M.>"


def worker_consumer(tag: str) -> str:
    """The durable consumer that all workers of a tag share."""
    return f"pyoco-worker-{tag}"


def told(instance_id: InstanceId) -> str:
    """Where one worker instance listens for taps on its shoulder."""
    return f"pyoco.tell.{instance_id}"


@dataclass(frozen=True, slots=True)
class Subjects:
    """The names that settings may change."""

    config: NatsBackendConfig

    def event(self, run_id: RunId | str) -> str:
        return f"{self.config.events_subject_prefix}.{run_id}"

    def stored(self, run_id: RunId | str) -> str:
        return f"{self.config.stored_subject_prefix}.{run_id}"

    def log(self, run_id: RunId | str) -> str:
        return f"{self.config.logs_subject_prefix}.{run_id}"

    def log_stored(self, run_id: RunId | str) -> str:
        """Where the broker says that it has stored a chunk; one token more than what it says of commits."""
        return f"{self.config.stored_subject_prefix}.log.{run_id}"

    def work(self, tag: str) -> str:
        return f"{self.config.work_subject_prefix}.{tag}"

    def dead_letter(self, tag: str) -> str:
        return f"{self.config.dlq_subject_prefix}.{tag}"

    def run_key(self, run_id: RunId | str) -> str:
        return bucket_key(self.config.runs_kv_bucket, run_id)

    def worker_key(self, worker_id: WorkerId | str) -> str:
        return bucket_key(self.config.workers_kv_bucket, worker_id)

    def api_key(self, key_id: KeyId | str) -> str:
        return bucket_key(self.config.auth_kv_bucket, key_id)

    def wheel_event_key(self, key: str) -> str:
        return bucket_key(self.config.wheel_history_kv_bucket, key)

    def graph_key(self, tenant_id: str | None, graph_id: str) -> str:
        """A graph's key; both names may have any signs. No encoded tenant is a lone dash."""
        return bucket_key(self.config.graphs_kv_bucket, f"{_tenant_token(tenant_id)}.{_encoded(graph_id)}")

    def graph_keys(self, tenant_id: str | None) -> str:
        """The keys of all graphs of a tenant."""
        return bucket_key(self.config.graphs_kv_bucket, f"{_tenant_token(tenant_id)}.*")

    @property
    def graphs_stream(self) -> str:
        return bucket_stream(self.config.graphs_kv_bucket)

    def idempotency_record(self, key: RecordKey | str) -> str:
        return bucket_key(self.config.idempotency_kv_bucket, key)

    @property
    def idempotency_stream(self) -> str:
        return bucket_stream(self.config.idempotency_kv_bucket)

    def ticket(self, key: TicketKey | str) -> str:
        return bucket_key(self.config.tickets_kv_bucket, key)

    @property
    def tickets_stream(self) -> str:
        return bucket_stream(self.config.tickets_kv_bucket)

    @property
    def wheels_stream(self) -> str:
        return object_stream(self.config.wheel_object_store_bucket)

    @property
    def wheel_history_stream(self) -> str:
        return bucket_stream(self.config.wheel_history_kv_bucket)

    @property
    def runs_stream(self) -> str:
        return bucket_stream(self.config.runs_kv_bucket)

    @property
    def workers_stream(self) -> str:
        return bucket_stream(self.config.workers_kv_bucket)

    @property
    def api_keys_stream(self) -> str:
        return bucket_stream(self.config.auth_kv_bucket)


def last_token(subject: str) -> str:
    """What our subjects are about: a run id, a tag (neither has dots)."""
    return subject.rpartition(".")[2]


def graph_id_in(subject: str) -> str:
    """The graph that a key is about; ValueError where nobody of us wrote it."""
    token = last_token(subject)
    graph_id = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True).decode()
    if _encoded(graph_id) != token:
        raise ValueError("not the one way to write it")
    return graph_id


def _tenant_token(tenant_id: str | None) -> str:
    return "-" if tenant_id is None else _encoded(tenant_id)


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).rstrip(b"=").decode()
