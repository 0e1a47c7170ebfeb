"""One connection to NATS per process: it reconnects, fails fast, and never buffers what it cannot send.

A failed request may have been stored (its ack was lost), but it is never sent after its caller got "unavailable".
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable, Sequence
from typing import Any

import orjson
from nats.errors import Error as NatsError

from pyoco_server.adapters.jetstream import refusals
from pyoco_server.adapters.jetstream.client import (
    BATCH_SEC,
    NO_RESPONDERS,
    LeanClient,
    Listener,
    Message,
    Replies,
    Subscription,
    cancel_until_ended,
)
from pyoco_server.adapters.jetstream.failures import WRONG_LAST_SEQUENCE, ConnectionLost, NoResponders, RequestRejected
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerUnavailable, InvalidUsage, RequestTooLarge

logger = logging.getLogger(__name__)

CONNECT_SEC = 10.0
# A caller gets "unavailable" within two seconds. The worst case is an unanswered request (detected a tenth of a second
# late) and the read that checks whether it was stored.
REQUEST_SEC = 1.2
DOUBT_SEC = 0.4
API_SEC = 5.0
# With more requests in flight than this, batching them is faster than sending each at once.
BATCH_ABOVE = 4
# A broker that has more than 64 MiB pending for one connection closes it, and fails all requests on it. All reads of a
# process share its connection, and it may be busy for a moment: no more than this is requested at a time.
READ_BUDGET_BYTES = 24 * 1024 * 1024
READ_BYTES = 2 * 1024 * 1024
# Subject, reply subject and frame of a message count too.
OVERHEAD_BYTES = 64 * 1024
# A lost connection is usually back at once; during a longer outage callers wait less.
RECONNECT_WAIT_SEC = 1.0
STILL_AWAY_WAIT_SEC = 0.3
RETRY_SEC = 0.1
# A peer that died without closing is given up after two unanswered pings: within three seconds.
PING_SEC = 1.0
MAX_PINGS = 2


class Connection:
    """Requests, plain publishes and subscriptions on one socket, shared by all adapters."""

    def __init__(self, config: NatsBackendConfig) -> None:
        loop = asyncio.get_running_loop()
        self._config = config
        self._client = LeanClient(self._lost, needs_tls=bool(config.nats_tls_ca_file))
        self._inbox = f"_INBOX.{secrets.token_hex(11)}"
        self._inboxes = 0
        self._replies = Replies(f"{self._inbox}.r.".encode(), loop)
        self._back = asyncio.Event()
        self._hooks: list[Callable[[], None]] = []
        self._last_error: Exception | None = None
        self._lost_at = loop.time()
        self._one_by_one = asyncio.Semaphore(1)
        self._batches = asyncio.Semaphore(1)

    @classmethod
    async def open(
        cls, config: NatsBackendConfig, *, name: str = "pyoco-server", timeout_sec: float = CONNECT_SEC
    ) -> Connection:
        """An established connection; after `timeout_sec` `BrokerUnavailable`, or `BrokerRefused` if it knows why."""
        connection = cls(config)
        connecting = asyncio.create_task(connection._connect(name))
        try:
            try:
                async with asyncio.timeout(timeout_sec):
                    await asyncio.shield(connecting)
            finally:
                await cancel_until_ended(connecting)
        except (TimeoutError, NatsError, OSError) as error:
            await connection.close()
            cause = connection._last_error or error
            if (refusal := refusals.of_connection(cause, config)) is not None:
                raise refusal from cause
            raise BrokerUnavailable(f"cannot connect to {config.nats_url_without_secrets}: {cause}") from cause
        except ModuleNotFoundError as error:
            await connection.close()
            raise InvalidUsage("PYOCO_NATS_CREDS_FILE needs the package nkeys: pip install nkeys") from error
        except BaseException:
            await connection.close()
            raise
        return connection

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close; pending requests fail with `BrokerUnavailable`."""
        self._hooks.clear()
        self._replies.fail_all("the connection to nats was closed")
        await self._client.close()

    @property
    def connected(self) -> bool:
        return bool(self._client.is_connected)

    @property
    def has_jetstream(self) -> bool:
        return bool(self._client.has_jetstream)

    @property
    def last_error(self) -> Exception | None:
        """What the server or the connection reported last."""
        return self._last_error

    @property
    def max_payload(self) -> int:
        """The largest message that the server accepts, in bytes, headers included."""
        return int(self._client.max_payload)

    @property
    def max_batch_bytes(self) -> int:
        """The most that one batch of messages may have: each message fits."""
        return max(READ_BYTES, self.max_payload + OVERHEAD_BYTES)

    @property
    def one_by_one(self) -> asyncio.Semaphore:
        """The turn of a request for one message; together they stay within `READ_BUDGET_BYTES`."""
        return self._one_by_one

    @property
    def batches(self) -> asyncio.Semaphore:
        """The turn of a request for `max_batch_bytes`; together they stay within `READ_BUDGET_BYTES`."""
        return self._batches

    @property
    def server_version(self) -> tuple[int, int]:
        version = self._client.connected_server_version
        return version.major, version.minor

    def on_reconnect(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Call the hook after each reconnect; the returned function ends that."""
        self._hooks.append(hook)

        def remove() -> None:
            if hook in self._hooks:
                self._hooks.remove(hook)

        return remove

    async def ready(self) -> None:
        """Return when connected; wait a moment for a reconnect, then raise `BrokerUnavailable`."""
        if self._client.is_connected:
            return
        if self._client.is_closed:
            raise BrokerUnavailable("the connection to nats is closed")
        self._back.clear()
        away_sec = asyncio.get_running_loop().time() - self._lost_at
        try:
            async with asyncio.timeout(max(RECONNECT_WAIT_SEC - away_sec, STILL_AWAY_WAIT_SEC)):
                await self._back.wait()
        except TimeoutError as error:
            raise BrokerUnavailable("not connected to nats") from error

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        headers: bytes = b"",
        timeout_sec: float = REQUEST_SEC,
        strict: bool = False,
    ) -> Message:
        """Send and wait for the reply; `strict` never extends the timeout, also under load."""
        return (await self._ask(subject, payload, headers, timeout_sec, many=False, strict=strict))[0]

    async def request_again(self, subject: str, payload: bytes = b"", *, headers: bytes = b"") -> Message:
        """An idempotent request: repeated once when the connection was lost before its reply."""
        try:
            return await self.request(subject, payload, headers=headers)
        except ConnectionLost:
            return await self.request(subject, payload, headers=headers)

    async def request_many(self, subject: str, payload: bytes, *, timeout_sec: float = REQUEST_SEC) -> list[Message]:
        """Send and collect replies up to and including one with a status."""
        return await self._ask(subject, payload, b"", timeout_sec, many=True)

    async def api(
        self, subject: str, body: dict[str, Any] | None = None, *, timeout_sec: float | None = None
    ) -> dict[str, Any]:
        """Call JetStream's API; its errors are raised as `RequestRejected`. User requests pass `REQUEST_SEC`."""
        payload = b"" if body is None else orjson.dumps(body)
        return _parsed(await self.request(subject, payload, timeout_sec=timeout_sec or API_SEC))

    async def read(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call an API that changes nothing, with the timeout of a request."""
        return _parsed(await self.request_again(subject, orjson.dumps(body)))

    async def store(
        self,
        subject: str,
        payload: bytes,
        headers: Sequence[tuple[str, object]] = (),
        *,
        again: bool = False,
        timeout_sec: float = REQUEST_SEC,
    ) -> int | None:
        """Publish to a stream; returns the message's sequence, or None when the last one is not the expected one.

        With `again`, a message that changes nothing when it is repeated is sent once more after a lost connection.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        block = b"NATS/1.0\r\n%b\r\n" % lines.encode() if headers else b""
        try:
            if again:
                reply = await self.request_again(subject, payload, headers=block)
            else:
                reply = await self.request(subject, payload, headers=block, timeout_sec=timeout_sec)
            sequence: int = _parsed(reply)["seq"]
        except RequestRejected as rejected:
            if rejected.err_code in WRONG_LAST_SEQUENCE:
                return None
            raise
        return sequence

    async def publish(self, subject: str, payload: bytes = b"", *, reply: str = "", within_sec: float = 0.0) -> None:
        """Send without a reply, now or together with later commands; raises when disconnected."""
        if not self._client.is_connected:
            await self.ready()
        self._client.write(_command(subject, reply.encode(), b"", payload), within_sec=within_sec)

    def send(self, subject: str, payload: bytes = b"") -> None:
        """Send now or not at all: best effort."""
        if self._client.is_connected:
            self._client.write(_command(subject, b"", b"", payload))

    async def subscribe(self, subject: str, listener: Listener) -> Subscription:
        """Call the listener for every message, across reconnects."""
        await self.ready()
        return await self._client.listen(subject, listener)

    def new_inbox(self) -> str:
        self._inboxes += 1
        return f"{self._inbox}.{self._inboxes}"

    async def _ask(
        self, subject: str, payload: bytes, headers: bytes, timeout_sec: float, *, many: bool, strict: bool = False
    ) -> list[Message]:
        # The server would close the connection and fail all requests on it.
        if len(payload) + len(headers) > self._client.max_payload:
            raise RequestTooLarge(f"{len(payload)} bytes are more than nats takes in one message ({self.max_payload})")
        if not self._client.is_connected:
            await self.ready()
        if self._replies.in_doubt and timeout_sec == REQUEST_SEC:
            timeout_sec = DOUBT_SEC
        reply, future = self._replies.expect(timeout_sec=timeout_sec, many=many, strict=strict)
        within_sec = BATCH_SEC if self._replies.waiting > BATCH_ABOVE else 0.0
        self._client.write(_command(subject, reply, headers, payload), within_sec=within_sec)
        return await future

    async def _connect(self, name: str) -> None:
        config = self._config
        options: dict[str, Any] = {}
        if config.nats_token:
            options["token"] = config.nats_token
        if config.nats_creds_file:
            options["user_credentials"] = config.nats_creds_file
        if config.nats_tls_ca_file:
            try:
                options["tls"] = ssl.create_default_context(cafile=config.nats_tls_ca_file)
            except OSError as error:
                raise InvalidUsage(f"PYOCO_NATS_TLS_CA_FILE: {error}") from error
        await self._client.connect(
            config.nats_servers,
            name=name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RETRY_SEC,
            connect_timeout=2.0,
            ping_interval=PING_SEC,
            max_outstanding_pings=MAX_PINGS,
            pending_size=0,
            **options,
        )
        await self._client.listen(f"{self._inbox}.r.*", self._replies.receive)
        self._one_by_one = asyncio.Semaphore(max(1, READ_BUDGET_BYTES // self.max_payload))
        self._batches = asyncio.Semaphore(max(1, READ_BUDGET_BYTES // self.max_batch_bytes))

    def _lost(self) -> None:
        self._lost_at = asyncio.get_running_loop().time()
        self._replies.fail_all("the connection to nats was lost")

    async def _on_error(self, error: Exception) -> None:
        # A server that rejects a login reports the reason and then closes; the reason is the one to show.
        if not _is_reason(self._last_error) or _is_reason(error):
            self._last_error = error
        # During an outage every attempt fails; the loss itself was logged once.
        level = logging.WARNING if self.connected else logging.DEBUG
        logger.log(level, "nats error", extra={"error": f"{type(error).__name__}: {error}"})

    async def _on_disconnected(self) -> None:
        if not self._client.is_closed:
            logger.warning("nats disconnected", extra={"nats_url": self._config.nats_url_without_secrets})

    async def _on_reconnected(self) -> None:
        logger.info("nats reconnected", extra={"nats_url": self._config.nats_url_without_secrets})
        self._back.set()
        for hook in list(self._hooks):
            hook()


def _is_reason(error: Exception | None) -> bool:
    return "authorization" in str(error).lower()


def _parsed(message: Message) -> dict[str, Any]:
    """The JSON of a JetStream reply, or the error in it."""
    if message.status == NO_RESPONDERS:
        raise NoResponders("nats answers, but JetStream or the stream does not")
    try:
        reply: dict[str, Any] = orjson.loads(message.data)
    except orjson.JSONDecodeError as error:
        raise BrokerUnavailable("nats answered something that is not JSON") from error
    error_part = reply.get("error")
    if error_part is not None:
        raise RequestRejected(error_part.get("err_code", error_part.get("code", 0)), error_part.get("description", ""))
    return reply


def _command(subject: str, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    if headers:
        sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
        return b"HPUB %b %b %b\r\n%b%b\r\n" % (subject.encode(), reply, sizes, headers, payload)
    return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply, len(payload), payload)
