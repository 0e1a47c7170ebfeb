"""HTTP to Airflow: login, bounded answers, bounded concurrency, a circuit breaker, and one error for all failures.

Passwords and tokens never leave this module, except to the configured address: redirects are not followed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
import orjson

from pyoco_server.adapters.airflow.circuit import Circuit, CircuitState
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import EngineDown, EngineMisconfigured, InvalidUsage
from pyoco_server.ports import Clock
from pyoco_server.services.context import Counters
from pyoco_server.tracing.spans import child_span

T = TypeVar("T")

# Longer than a transaction of Airflow waits for SQLite (15 s).
REQUEST_TIMEOUT_SEC = 20.0
# Below the 5 s after which Airflow's server closes an idle connection.
KEEPALIVE_SEC = 3.0
MAX_BODY_BYTES = 64 * 1024
MAX_PASSWORD_BYTES = 4096
MAX_DETAIL_CHARS = 200
# RFC 6750; servers accept header lines of 8 KiB.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,8000}=*", re.ASCII)
_TOKEN_REFUSED = (401, 403)
_OUTCOMES = {404: "missing", 409: "exists", 401: "unauthorized", 403: "unauthorized"}
# Labels of a metric, all of which exist from the start: a rate needs a zero to begin with.
ENDPOINTS = ("login", "dag", "health", "trigger", "states", "run", "tasks", "xcom", "cancel")
OUTCOMES = ("success", *sorted({*_OUTCOMES.values()}), "refused", "failed", "unanswered", "circuit_open")


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `endpoint` is its name in the metrics."""

    endpoint: str
    path: str
    method: str = "GET"
    query: Mapping[str, str] = {}
    body: Any = None
    max_bytes: int = MAX_BODY_BYTES


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is no failure of Airflow: 2xx, or a 4xx about this request. Too large a body is cut off."""

    call: Call
    status: int
    body: bytes
    is_cut: bool = False

    @property
    def is_success(self) -> bool:
        return self.status < 300

    def read(self, kind: type[T]) -> T:
        """The body of a success."""
        if not self.is_success:
            raise EngineDown(f"Airflow answered {self.status} to {self.call.endpoint}")
        if self.is_cut:
            raise EngineDown(f"Airflow's answer to {self.call.endpoint} has more than {self.call.max_bytes} bytes")
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            # Without a cause: it may repeat parts of the answer.
            raise EngineDown(f"Airflow's answer to {self.call.endpoint} cannot be read") from None


class _Token(msgspec.Struct):
    access_token: str


class _Refusal(msgspec.Struct):
    detail: Any = None


class AirflowClient:
    """Requests of this process to one Airflow.

    Background calls queue at `_background` first, so that a call with a deadline waits for those under way only.
    """

    def __init__(self, config: NatsBackendConfig, clock: Clock, counters: Counters) -> None:
        self._config = config
        self._counters = counters
        self._circuit = Circuit(clock)
        counters.airflow_circuit = self._circuit.state.value
        counters.airflow_requests.update({(endpoint, outcome): 0 for endpoint in ENDPOINTS for outcome in OUTCOMES})
        self._background = asyncio.Semaphore(config.airflow_concurrency)
        self._slots = asyncio.Semaphore(config.airflow_concurrency)
        self._login_lock = asyncio.Lock()
        self._token: str | None = None
        self._password = read_password(config)  # an unreadable file is refused at the start
        self._http = httpx.AsyncClient(
            base_url=config.airflow_url,
            verify=_tls(config),
            timeout=None,  # noqa: S113 - every exchange has one limit for all of it
            limits=httpx.Limits(max_connections=None, keepalive_expiry=KEEPALIVE_SEC),
            follow_redirects=False,
            trust_env=False,
            # A session cookie would outlive the token it came with.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        # A line for every request; with DEBUG also the headers of answers, which may set cookies.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def circuit_state(self) -> CircuitState:
        return self._circuit.state

    async def call(self, call: Call, *, deadline: float | None = None) -> Answer:
        """The answer, or `EngineDown`; with a deadline (time of the loop) by then, without one when it is its turn."""
        if deadline is not None:
            return await self._in_turn(call, deadline)
        async with self._background:
            return await self._in_turn(call, None)

    async def _in_turn(self, call: Call, deadline: float | None) -> Answer:
        try:
            async with asyncio.timeout_at(deadline), self._slots:
                return await self._authorized(call)
        except TimeoutError:
            self._count(call, "unanswered")
            failure = EngineDown("Airflow did not answer in time")
            self._circuit.failed(failure)
            raise failure from None
        finally:
            self._counters.airflow_circuit = self._circuit.state.value

    async def _authorized(self, call: Call) -> Answer:
        token = self._token or await self._login(None)
        answer = await self._exchange(call, token)
        if answer.status in _TOKEN_REFUSED:
            # 401: it has expired. 403: Airflow has a new signing key and cannot read it.
            answer = await self._exchange(call, await self._login(token))
        if answer.status in _TOKEN_REFUSED:
            raise EngineMisconfigured(
                f"Airflow refuses {call.endpoint} to the user of PYOCO_AIRFLOW_USER with a new token ({answer.status})"
            )
        return answer

    async def _login(self, refused: str | None) -> str:
        """A token other than the refused one."""
        async with self._login_lock:
            if self._token is not None and self._token != refused:
                return self._token
            try:
                self._password = read_password(self._config)
            except InvalidUsage as error:
                raise EngineMisconfigured(error.detail) from None
            credentials = {"username": self._config.airflow_user, "password": self._password}
            login = Call(endpoint="login", path="/auth/token", method="POST", body=credentials)
            answer = await self._exchange(login, None)
            if not answer.is_success:
                failure = EngineMisconfigured(
                    f"Airflow refuses user and password of PYOCO_AIRFLOW_USER ({answer.status})"
                    if answer.status in _TOKEN_REFUSED
                    else f"PYOCO_AIRFLOW_URL does not lead to Airflow 3: its login answers {answer.status}"
                )
                # Wrong passwords lock accounts, so the pauses of the circuit apply.
                self._circuit.failed(failure)
                raise failure
            token = answer.read(_Token).access_token
            # What does not fit into a header line would be repeated in an error of the HTTP client.
            if _TOKEN.fullmatch(token) is None:
                raise EngineDown("Airflow's answer to login cannot be read")
            self._token = token
            return token

    async def _exchange(self, call: Call, token: str | None) -> Answer:
        """One request through the circuit."""
        try:
            self._circuit.admit()
        except EngineDown:
            self._count(call, "circuit_open")
            raise
        has_verdict = False
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SEC):
                answer = await self._send(call, token)
            if answer.status not in _TOKEN_REFUSED:
                has_verdict = True
                self._circuit.succeeded()
        except EngineDown as failure:
            has_verdict = True
            self._circuit.failed(failure)
            raise
        finally:
            if not has_verdict:
                self._circuit.abandoned()
        self._count(call, "success" if answer.is_success else _OUTCOMES.get(answer.status, "refused"))
        return answer

    async def _send(self, call: Call, token: str | None) -> Answer:
        content = None if call.body is None else orjson.dumps(call.body)
        headers = {} if content is None else {"Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        attributes = {"http.request.method": call.method, "server.address": self._http.base_url.host}
        try:
            # Without the path, which has ids, and the query.
            with child_span(f"airflow {call.endpoint}", attributes, "client") as span:
                async with self._http.stream(
                    call.method, call.path, params=dict(call.query), content=content, headers=headers
                ) as response:
                    status = response.status_code
                    span.set("http.response.status_code", status)
                    if (failure := _failure_of(status)) is not None:
                        raise failure
                    body, is_cut = await _read_bounded(response, call)
        except httpx.RequestError as error:
            self._count(call, "unanswered")
            # Without a cause: it carries the request with its headers.
            raise EngineDown(f"Airflow cannot be reached: {error or type(error).__name__}") from None
        except EngineDown:
            self._count(call, "failed")
            raise
        return Answer(call=call, status=status, body=body, is_cut=is_cut)

    def reason_of(self, answer: Answer) -> str:
        """What Airflow says about a refusal, in one short line without secrets."""
        try:
            detail = msgspec.json.decode(answer.body, type=_Refusal).detail
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            detail = None
        # Not by orjson, which refuses integers beyond 64 bits.
        text = detail if isinstance(detail, str) else "" if detail is None else msgspec.json.encode(detail).decode()
        for secret in (self._token or "\0", self._password):
            text = text.replace(secret, "***")
        return in_one_line(text[:MAX_DETAIL_CHARS])

    def _count(self, call: Call, outcome: str) -> None:
        self._counters.airflow_requests[call.endpoint, outcome] += 1


def in_one_line(text: str) -> str:
    """A text of Airflow for an error: without line breaks and terminal escapes."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def read_password(config: NatsBackendConfig) -> str:
    path = config.airflow_password_file
    if not path:
        return config.airflow_password
    try:
        with Path(path).open("rb") as file:
            password = file.read(MAX_PASSWORD_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidUsage(f"PYOCO_AIRFLOW_PASSWORD_FILE cannot be read: {reason}") from None
    if not password:
        raise InvalidUsage("PYOCO_AIRFLOW_PASSWORD_FILE is an empty file")
    return password


def _failure_of(status: int) -> EngineDown | None:
    """The failure of Airflow, or of what stands before it, that this status is."""
    if status >= 500 or status in (408, 429):
        return EngineDown(f"Airflow answers with an error ({status})")
    if not 200 <= status < 300 and status < 400:
        return EngineMisconfigured(f"PYOCO_AIRFLOW_URL leads to a redirect ({status}), which is not followed")
    return None


async def _read_bounded(response: httpx.Response, call: Call) -> tuple[bytes, bool]:
    """The body, and whether it was cut off."""
    # A compressed body could be small and become large.
    if response.headers.get("content-encoding", "identity") != "identity":
        raise EngineDown(f"Airflow's answer to {call.endpoint} cannot be read")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > call.max_bytes:
            return b"", True
    return bytes(body), False


def _tls(config: NatsBackendConfig) -> ssl.SSLContext:
    if not config.airflow_url.startswith("https:"):
        # Loading the certificates takes longer than a request, and nothing is encrypted here.
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        return ssl.create_default_context(cafile=config.airflow_ca_file or None)
    except (OSError, ssl.SSLError) as error:
        raise InvalidUsage(f"PYOCO_AIRFLOW_CA_FILE cannot be read: {error.strerror or error}") from None
