"""Requests to Airflow: login and its renewal, bounds, the circuit breaker, and secrets that stay secret."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pyoco_server.adapters.airflow import client as client_module
from pyoco_server.adapters.airflow.circuit import FAILURES_TO_OPEN, FIRST_PAUSE_SEC
from pyoco_server.adapters.airflow.client import AirflowClient, Call
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import EngineDown, EngineMisconfigured, InvalidUsage
from pyoco_server.services.context import Counters
from pyoco_server.tracing.opentelemetry import TraceLimit, Tracing
from support.airflow_double import PASSWORD, USER, AirflowDouble, Cut, Endless, Hold, Reply, Slow, airflow_double
from support.clocks import ManualClock
from support.peers import unused_address

HEALTH = Call(endpoint="health", path="/api/v2/monitor/health")
DAG = Call(endpoint="dag", path="/api/v2/dags/pdca_recheck")


@pytest.fixture
def airflow() -> Iterator[AirflowDouble]:
    with airflow_double() as double:
        yield double


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def counters() -> Counters:
    return Counters()


def settings(airflow: AirflowDouble, **changed: Any) -> NatsBackendConfig:
    values: dict[str, Any] = {"airflow_url": airflow.url, "airflow_user": USER, "airflow_password": PASSWORD}
    return NatsBackendConfig(**values | changed)


@pytest.fixture
async def client(airflow: AirflowDouble, clock: ManualClock, counters: Counters) -> AsyncIterator[AirflowClient]:
    opened = AirflowClient(settings(airflow), clock, counters)
    yield opened
    await opened.close()


def tokens_shown(airflow: AirflowDouble, endpoint: str) -> list[str]:
    return [headers.get("Authorization", "") for name, _, headers in airflow.requests if name == endpoint]


async def test_one_login_serves_many_requests(airflow: AirflowDouble, client: AirflowClient) -> None:
    await asyncio.gather(*(client.call(HEALTH) for _ in range(5)))

    assert airflow.asked() == {"login": 1, "health": 5}
    assert set(tokens_shown(airflow, "health")) == {"Bearer secret-token-1"}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_token_that_is_not_accepted_any_more_is_renewed_once(
    airflow: AirflowDouble, client: AirflowClient, status: int
) -> None:
    await client.call(HEALTH)
    airflow.forget_tokens(status)

    answer = await client.call(HEALTH)

    assert answer.is_success
    assert airflow.asked() == {"login": 2, "health": 3}


@pytest.mark.parametrize("status", [401, 403])
async def test_a_new_token_that_is_refused_is_a_clear_error(
    airflow: AirflowDouble, client: AirflowClient, status: int
) -> None:
    airflow.plan("dag", Reply(status=status), Reply(status=status))

    with pytest.raises(EngineMisconfigured, match=rf"refuses dag to the user of PYOCO_AIRFLOW_USER.*\({status}\)"):
        await client.call(DAG)

    assert airflow.asked() == {"login": 2, "dag": 2}


async def test_a_wrong_password_is_a_clear_error_and_is_not_tried_on_and_on(
    airflow: AirflowDouble, client: AirflowClient
) -> None:
    airflow.password = "another"

    for _ in range(10):
        with pytest.raises(EngineMisconfigured, match="refuses user and password"):
            await client.call(HEALTH)

    assert airflow.asked()["login"] <= FAILURES_TO_OPEN
    assert airflow.asked()["health"] == 0


async def test_a_password_in_a_file_may_change_without_a_restart(
    airflow: AirflowDouble, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    config = settings(airflow, airflow_password="", airflow_password_file=str(file))
    client = AirflowClient(config, clock, Counters())
    await client.call(HEALTH)
    airflow.password = "changed"
    airflow.forget_tokens(401)
    file.write_text("changed\n")

    answer = await client.call(HEALTH)

    assert answer.is_success
    await client.close()


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"], ids=["missing", "empty", "blank", "no text"])
def test_an_unusable_password_file_is_refused_at_start(
    airflow: AirflowDouble, clock: ManualClock, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    config = settings(airflow, airflow_password="", airflow_password_file=str(file))

    with pytest.raises(InvalidUsage, match="PYOCO_AIRFLOW_PASSWORD_FILE"):
        AirflowClient(config, clock, Counters())


def test_an_unusable_ca_file_is_refused_at_start(clock: ManualClock, tmp_path: Path) -> None:
    config = NatsBackendConfig(
        airflow_url="https://airflow.example.org",
        airflow_user=USER,
        airflow_password=PASSWORD,
        airflow_ca_file=str(tmp_path / "missing.pem"),
    )

    with pytest.raises(InvalidUsage, match="PYOCO_AIRFLOW_CA_FILE"):
        AirflowClient(config, clock, Counters())


async def test_a_server_that_speaks_no_tls_gets_nothing_over_https(airflow: AirflowDouble, clock: ManualClock) -> None:
    client = AirflowClient(settings(airflow, airflow_url=airflow.url.replace("http:", "https:")), clock, Counters())

    with pytest.raises(EngineDown):
        await client.call(HEALTH)

    assert airflow.requests == []
    await client.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address, and its key."""
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=airflow", "-days", "2"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    return certificate, key


async def test_a_certificate_has_to_be_of_a_known_authority(clock: ManualClock, certificate: tuple[Path, Path]) -> None:
    with airflow_double(certificate) as airflow:
        unknown = AirflowClient(settings(airflow), clock, Counters())
        with pytest.raises(EngineDown, match="certificate verify failed"):
            await unknown.call(HEALTH)
        refused_before = list(airflow.requests)
        known = AirflowClient(settings(airflow, airflow_ca_file=str(certificate[0])), clock, Counters())
        answer = await known.call(HEALTH)
        await unknown.close()
        await known.close()

    assert refused_before == []
    assert answer.is_success


@pytest.mark.parametrize("endpoint", ["login", "health"])
async def test_a_redirect_is_not_followed(airflow: AirflowDouble, client: AirflowClient, endpoint: str) -> None:
    with airflow_double() as other:
        airflow.plan(endpoint, Reply(status=302, headers={"Location": f"{other.url}/api/v2/monitor/health"}))

        with pytest.raises(EngineMisconfigured, match="redirect"):
            await client.call(HEALTH)

    assert other.requests == []


@pytest.mark.parametrize(
    "fault",
    [
        Reply(body=b"<html>a proxy</html>"),
        Reply(body=b"[]"),
        Reply(body=b"\xff"),
        Reply(body=b"[" * 60_000),
        Reply(body=b"{}", headers={"Content-Encoding": "gzip"}),
        Reply(status=500),
        Reply(status=503, body=b"x" * 1_000_000),
        Reply(status=429),
        Reply(status=418),
        Cut(),
        Endless(),
    ],
    ids=repr,
)
async def test_an_answer_that_cannot_be_used_is_one_kind_of_error(
    airflow: AirflowDouble, client: AirflowClient, fault: Any
) -> None:
    airflow.plan("health", fault)

    with pytest.raises(EngineDown):
        (await client.call(HEALTH)).read(dict[str, Any])


@pytest.mark.parametrize(
    "token",
    [
        b'{"access_token": "' + b"x" * 1_000_000 + b'"}',
        b'{"access_token": "' + b"x" * 60_000 + b'"}',
        b"{}",
        b'{"access_token": ""}',
        b'{"access_token": "a\\nb"}',
        b'{"access_token": 1}',
        b"x",
    ],
    ids=lambda token: repr(token[:30]),
)
async def test_a_login_without_a_usable_token_is_an_error(
    airflow: AirflowDouble, client: AirflowClient, token: bytes
) -> None:
    airflow.plan("login", Reply(status=201, body=token))

    with pytest.raises(EngineDown):
        await client.call(HEALTH)

    assert airflow.asked() == {"login": 1}


async def test_nobody_at_the_address_is_the_same_kind_of_error(clock: ManualClock) -> None:
    config = NatsBackendConfig(airflow_url=unused_address(), airflow_user=USER, airflow_password=PASSWORD)
    client = AirflowClient(config, clock, Counters())

    with pytest.raises(EngineDown, match="cannot be reached"):
        await client.call(HEALTH)

    await client.close()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_requests_of_all_callers_are_bounded_together(
    airflow: AirflowDouble, clock: ManualClock, concurrency: int
) -> None:
    client = AirflowClient(settings(airflow, airflow_concurrency=concurrency), clock, Counters())
    await client.call(HEALTH)
    go_on = threading.Event()
    airflow.plan("health", *(Hold(go_on) for _ in range(concurrency)))

    calls = [asyncio.create_task(client.call(HEALTH)) for _ in range(8)]
    for _ in range(2 + concurrency):  # the login and the first request have been answered
        await asyncio.to_thread(airflow.entered.acquire)
    go_on.set()
    await asyncio.gather(*calls)

    assert airflow.most_at_a_time == concurrency
    await client.close()


async def test_a_call_with_a_deadline_does_not_wait_for_those_that_queue(
    airflow: AirflowDouble, client: AirflowClient
) -> None:
    await client.call(HEALTH)
    go_on = threading.Event()
    airflow.plan("health", Hold(go_on))
    queue = [asyncio.create_task(client.call(HEALTH)) for _ in range(20)]
    for _ in range(3):
        await asyncio.to_thread(airflow.entered.acquire)

    urgent = asyncio.create_task(client.call(DAG, deadline=asyncio.get_running_loop().time() + 20))
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(urgent, *queue)

    assert [name for name, _, _ in airflow.requests].index("dag") == 3  # after login, the first and the held one


async def test_an_airflow_that_is_down_is_left_alone_but_for_one_probe_at_a_time(
    airflow: AirflowDouble, client: AirflowClient, clock: ManualClock, counters: Counters
) -> None:
    await client.call(HEALTH)
    airflow.plan("health", *(Reply(status=503) for _ in range(FAILURES_TO_OPEN)))
    for _ in range(FAILURES_TO_OPEN + 5):
        with pytest.raises(EngineDown, match="503"):
            await client.call(HEALTH)
    assert airflow.asked()["health"] == 1 + FAILURES_TO_OPEN
    assert counters.airflow_circuit == "open"
    assert counters.airflow_requests["health", "circuit_open"] == 5
    clock.pass_time(FIRST_PAUSE_SEC)
    go_on = threading.Event()
    airflow.plan("health", Hold(go_on))

    probe = asyncio.create_task(client.call(HEALTH, deadline=asyncio.get_running_loop().time() + 20))
    for _ in range(3 + FAILURES_TO_OPEN):
        await asyncio.to_thread(airflow.entered.acquire)

    assert client.circuit_state.value == "half_open"
    go_on.set()
    await probe
    assert client.circuit_state.value == "closed"
    assert counters.airflow_circuit == "closed"


async def test_a_probe_whose_caller_goes_away_leaves_the_next_one_its_turn(
    airflow: AirflowDouble, client: AirflowClient, clock: ManualClock
) -> None:
    await client.call(HEALTH)
    airflow.plan("health", *(Reply(status=503) for _ in range(FAILURES_TO_OPEN)), Hold(airflow.stopping))
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(EngineDown):
            await client.call(HEALTH)
    clock.pass_time(FIRST_PAUSE_SEC)
    probe = asyncio.create_task(client.call(HEALTH))
    for _ in range(3 + FAILURES_TO_OPEN):
        await asyncio.to_thread(airflow.entered.acquire)

    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    answer = await client.call(HEALTH)

    assert answer.is_success


async def test_a_request_without_an_answer_ends(
    airflow: AirflowDouble, client: AirflowClient, counters: Counters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "REQUEST_TIMEOUT_SEC", 0.2)
    airflow.plan("health", Hold(airflow.stopping))

    with pytest.raises(EngineDown, match="in time"):
        await client.call(HEALTH)

    assert counters.airflow_requests["health", "unanswered"] == 1


@pytest.mark.parametrize("fault", [Slow(), Slow(headers=True), Endless()], ids=repr)
async def test_a_request_with_an_answer_that_does_not_end_ends(
    airflow: AirflowDouble, client: AirflowClient, monkeypatch: pytest.MonkeyPatch, fault: Slow | Endless
) -> None:
    monkeypatch.setattr(client_module, "REQUEST_TIMEOUT_SEC", 0.5)
    await client.call(HEALTH)
    airflow.plan("health", fault)

    async with asyncio.timeout(20):
        with pytest.raises(EngineDown):
            (await client.call(HEALTH)).read(dict[str, Any])


FAULTS: dict[str, list[Any]] = {
    "wrong password": [("login", Reply(status=401, body=f'{{"detail": "{PASSWORD}"}}'.encode()))],
    "echoed token": [("health", Reply(status=400, body=b'{"detail": "Bearer secret-token-1 is bad"}'))],
    "error": [("health", Reply(status=500, body=b"secret-token-1"))],
    "cut": [("health", Cut())],
    "redirect": [("health", Reply(status=307, headers={"Location": "http://elsewhere.example/?t=secret-token-1"}))],
    "no JSON": [("health", Reply(body=b"secret-token-1"))],
    "refused": [("health", Reply(status=403)), ("health", Reply(status=403))],
    "a token that fits into no header": [("login", Reply(status=201, body=b'{"access_token": "secret-token\\n"}'))],
    "login of no Airflow": [("login", Reply(status=404))],
}


@pytest.mark.parametrize("faults", FAULTS.values(), ids=FAULTS)
async def test_no_error_log_or_repr_has_a_secret(
    airflow: AirflowDouble, client: AirflowClient, caplog: pytest.LogCaptureFixture, faults: list[Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    for endpoint, fault in faults:
        airflow.plan(endpoint, fault)

    shown = [repr(client), repr(settings(airflow))]
    try:
        answer = await client.call(HEALTH)
        shown.append(client.reason_of(answer))
        answer.read(dict[str, Any])
    except EngineDown as error:
        logging.getLogger("test").exception("it failed")
        shown += [repr(error), error.detail, repr(error.__cause__), repr(error.__context__)]

    text = "\n".join((*shown, caplog.text))
    assert PASSWORD not in text
    assert "secret-token" not in text


async def test_a_request_is_a_span_of_the_trace_it_belongs_to(airflow: AirflowDouble, client: AirflowClient) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing(exporter, "test", TraceLimit(1))

    with tracing.enter("POST", "server", (None, None), {}):
        await client.call(HEALTH)
        airflow.plan("dag", Reply(status=503))
        with pytest.raises(EngineDown):
            await client.call(DAG)
    await client.call(HEALTH)

    await tracing.close()
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert [*spans] == ["airflow login", "airflow health", "airflow dag", "POST"]
    assert spans["airflow health"] == {
        "http.request.method": "GET",
        "server.address": "127.0.0.1",
        "http.response.status_code": 200,
    }
    assert spans["airflow dag"]["error.type"] == "EngineDown"
    assert not any(secret in str(spans) for secret in (PASSWORD, "secret-token"))
