"""The work queue on a WorkQueue stream, with one durable pull consumer per tag."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from pyoco_server.adapters.jetstream import failures, subjects
from pyoco_server.adapters.jetstream.client import LATER_SEC, Message
from pyoco_server.adapters.jetstream.connect import REQUEST_SEC, Connection
from pyoco_server.adapters.jetstream.failures import RequestRejected
from pyoco_server.adapters.jetstream.pull import PAUSE_SEC, Pull, delivery_info, reply_for
from pyoco_server.adapters.jetstream.reads import NS, StoredMessage, StreamReader
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.ids import is_tag
from pyoco_server.errors import BrokerUnavailable, InvalidUsage
from pyoco_server.ports import Job, QueueState, StoredJob

logger = logging.getLogger(__name__)

ConsumerConfig = dict[str, Any]


class JetStreamJobQueue:
    """JobQueue."""

    def __init__(self, connection: Connection, config: NatsBackendConfig) -> None:
        self._connection = connection
        self._config = config
        self._prefix = f"{config.work_subject_prefix}."

    async def publish(self, job: Job, *, created_sequence: int, nth: int = 1) -> None:
        # The broker drops a repeated id for two minutes: a retry after a lost ack stores no second job.
        headers = [(subjects.MSG_ID, f"{job.run_id}.{nth}"), (subjects.CREATED, created_sequence)]
        await self._connection.store(self._prefix + job.tag, msgspec.json.encode(job), headers, again=True)

    async def open(self, tag: str) -> JetStreamTagQueue:
        consumer = await _ensure_consumer(self._connection, self._config, tag)
        return JetStreamTagQueue(self._connection, self._config, tag, consumer)

    async def state(self, tag: str) -> QueueState:
        consumer = subjects.worker_consumer(tag)
        try:
            info = await self._connection.api(
                subjects.consumer_info(self._config.work_stream, consumer), timeout_sec=REQUEST_SEC
            )
        except RequestRejected as rejected:
            if rejected.err_code != failures.CONSUMER_NOT_FOUND:
                raise
            subject = self._prefix + tag
            stream = subjects.stream_info(self._config.work_stream)
            info = await self._connection.api(stream, {"subjects_filter": subject}, timeout_sec=REQUEST_SEC)
            return QueueState(waiting=(info["state"].get("subjects") or {}).get(subject, 0), in_work=0, redelivered=0)
        return QueueState(
            waiting=info["num_pending"],
            in_work=info["num_ack_pending"],
            redelivered=info["num_redelivered"],
            most_in_work=info["config"]["max_ack_pending"],
            ack_wait_sec=info["config"]["ack_wait"] / NS,
            most_deliveries=info["config"]["max_deliver"],
            given_up_through=_given_up_through(info),
        )

    async def give_back(self, return_to: str) -> None:
        # As a request, so that the broker confirms it; it applies to the message, whatever its delivery count.
        await self._connection.request_again(return_to, b"-NAK")

    async def take_back(self, jobs: Sequence[StoredJob], *, like: str) -> None:
        consumer = delivery_info(like.encode()).consumer.decode()
        info = await self._connection.api(subjects.consumer_info(self._config.work_stream, consumer))
        # Only delivered jobs: not every broker version may ignore a NAK of a job that still waits.
        if info["num_ack_pending"]:
            through = info["delivered"]["stream_seq"]
            for job in (job for job in jobs if job.sequence <= through):
                await self.give_back(reply_for(job.sequence, like))

    async def tags(self) -> Sequence[str]:
        body = {"subjects_filter": f"{self._prefix}>"}
        info = await self._connection.api(subjects.stream_info(self._config.work_stream), body)
        found = (subject.removeprefix(self._prefix) for subject in info["state"].get("subjects") or {})
        # A foreign producer may use a tag that no worker can have; such a tag has no consumer.
        return [tag for tag in found if is_tag(tag)]

    async def stored(
        self, tag: str, *, after: int = 0, upto: int | None = None, limit: int = 100
    ) -> Sequence[StoredJob]:
        found: list[StoredJob] = []
        # From the leader: a lagging replica would show jobs that are gone.
        reader = StreamReader(self._connection, self._config.work_stream, direct=False)
        while len(found) < limit and (message := await reader.next(self._prefix + tag, after)) is not None:
            if upto is not None and message.sequence > upto:
                break
            found.append(_stored(message, tag))
            after = message.sequence
        return found

    async def discard(self, job: StoredJob) -> None:
        try:
            await self._connection.api(
                subjects.message_delete(self._config.work_stream), {"seq": job.sequence, "no_erase": True}
            )
        except RequestRejected as rejected:
            if rejected.err_code not in failures.MESSAGE_GONE:
                raise

    async def on_given_up(self, notify: Callable[[], None]) -> None:
        await self._connection.subscribe(subjects.max_deliveries_advisory(self._config.work_stream), lambda _: notify())


def _given_up_through(consumer: dict[str, Any]) -> int:
    """The broker does not list exhausted jobs. But jobs up to the ack floor are not delivered again, and while none is
    pending an ack, neither are those up to the last delivered one."""
    position = "delivered" if consumer["num_ack_pending"] == 0 else "ack_floor"
    through: int = consumer[position]["stream_seq"]
    return through


def _stored(message: StoredMessage, tag: str) -> StoredJob:
    return StoredJob(
        sequence=message.sequence,
        tag=tag,
        subject=message.subject,
        payload=message.data,
        created_sequence=_created(message.header(subjects.CREATED)),
    )


def _created(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


class JetStreamDelivery:
    """Delivery. Acks are plain publishes: they are sent now or raise `BrokerUnavailable`."""

    def __init__(self, connection: Connection, message: Message, tag: str) -> None:
        self._connection = connection
        self.payload = message.data
        self.tag = tag
        self.subject = message.subject.decode()
        self.num_delivered = delivery_info(message.reply).num_delivered
        self.created_sequence = _created(message.header(subjects.CREATED))
        self.return_to = message.reply.decode()

    async def ack(self) -> None:
        await self._connection.publish(self.return_to, b"+ACK", within_sec=LATER_SEC)

    async def nak(self, delay_sec: float) -> None:
        await self._connection.publish(self.return_to, b"-NAK " + orjson.dumps({"delay": int(delay_sec * NS)}))

    async def term(self) -> None:
        await self._connection.publish(self.return_to, b"+TERM")

    async def in_progress(self) -> None:
        await self._connection.publish(self.return_to, b"+WPI")


class JetStreamTagQueue:
    """TagQueue. `receive` keeps waiting across broker restarts."""

    def __init__(self, connection: Connection, config: NatsBackendConfig, tag: str, consumer: ConsumerConfig) -> None:
        self._connection = connection
        self._config = config
        self._tag = tag
        self._consumer = consumer
        self._checked = True
        self._pull = Pull(connection, config.work_stream, consumer["name"])
        self._keeping = asyncio.get_running_loop().call_later(self.ack_wait_sec / 3, self._keep)

    @property
    def ack_wait_sec(self) -> float:
        return float(self._consumer["ack_wait"]) / NS

    async def receive(self, credit: int) -> Sequence[JetStreamDelivery]:
        while True:
            messages = self._pull.take()
            if messages:
                return [JetStreamDelivery(self._connection, message, self._tag) for message in messages]
            try:
                if self._pull.stale:
                    await self._look_after_consumer()
                # Refilled at half: many requests for one job each would all send heartbeats.
                await self._pull.wait(credit, low=credit // 2)
            except BrokerUnavailable as error:
                logger.warning("jobs cannot be pulled", extra={"tag": self._tag, "error": error.detail})
                await asyncio.sleep(PAUSE_SEC)

    async def close(self) -> None:
        self._keeping.cancel()
        self._pull.stop()
        try:
            # Its reply comes behind all messages that the broker sent before it processed the unsubscribe.
            await self._connection.api(subjects.consumer_info(self._config.work_stream, self._consumer["name"]))
            for message in self._pull.take():
                await self._connection.publish(message.reply.decode(), b"-NAK")
        except BrokerUnavailable as error:
            # The broker redelivers them after AckWait.
            logger.warning("jobs could not be given back", extra={"tag": self._tag, "error": error.detail})
        finally:
            self._pull.close()

    def _keep(self) -> None:
        # A job received between two calls waits here for the next one; the broker must not redeliver it.
        for message in self._pull.waiting():
            self._connection.send(message.reply.decode(), b"+WPI")
        self._keeping = asyncio.get_running_loop().call_later(self.ack_wait_sec / 3, self._keep)

    async def _look_after_consumer(self) -> None:
        if not self._checked:
            self._consumer = await _ensure_consumer(self._connection, self._config, self._tag)
        await self._pull.renew()
        self._checked = False


async def _ensure_consumer(connection: Connection, config: NatsBackendConfig, tag: str) -> ConsumerConfig:
    """The real settings of the tag's durable consumer; an existing one is not changed."""
    stream, name = config.work_stream, subjects.worker_consumer(tag)
    try:
        return await _look(connection, stream, name)
    except RequestRejected as rejected:
        if rejected.err_code != failures.CONSUMER_NOT_FOUND:
            raise
    wanted: ConsumerConfig = {
        "name": name,
        "durable_name": name,
        "filter_subject": f"{config.work_subject_prefix}.{tag}",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(config.consumer_ack_wait_sec * NS),
        "max_deliver": config.consumer_max_deliver,
        "max_ack_pending": config.consumer_max_ack_pending,
        "replay_policy": "instant",
    }
    body = {"stream_name": stream, "config": wanted, "action": "create"}
    try:
        created: ConsumerConfig = (await connection.api(subjects.consumer_create(stream, name), body))["config"]
    except RequestRejected as rejected:
        if rejected.err_code == failures.CONSUMER_NOT_UNIQUE:
            raise InvalidUsage(
                f"another consumer of {stream} already takes the jobs of tag {tag!r}; remove it, or use another tag"
            ) from rejected
        if rejected.err_code not in failures.CONSUMER_EXISTS:
            raise
        return await _look(connection, stream, name)  # created by another worker meanwhile, with other settings
    return created


async def _look(connection: Connection, stream: str, name: str) -> ConsumerConfig:
    found: ConsumerConfig = (await connection.api(subjects.consumer_info(stream, name)))["config"]
    return found
