"""Two gateways as real processes with one quota: their sum holds it, and the share of a killed one is given back."""

from __future__ import annotations

import signal
import time
from itertools import cycle, islice
from pathlib import Path

import httpx

from support.broker import Broker
from support.programs import address_of, connected, until, up

QUOTA = 120
SETTINGS = {"PYOCO_RATE_LIMIT_API_READ_PER_MIN": str(QUOTA)}
PER_SEC = QUOTA / 60
QUIET_SEC = 3.0


def is_admitted(client: httpx.Client) -> bool:
    return client.get("/runs").status_code == 200


def test_a_quota_is_held_over_two_gateways_and_given_back_when_one_is_killed(tmp_path: Path) -> None:
    for name in ("nats", "first", "second"):
        (tmp_path / name).mkdir()
    with (
        Broker(tmp_path / "nats") as broker,
        up(tmp_path / "first", "--nats-url", broker.url, env=SETTINGS) as first,
        up(tmp_path / "second", "--nats-url", broker.url, env=SETTINGS) as second,
        connected(first) as one,
        connected(second) as two,
    ):
        first.out.wait_for("gateway joined")
        began = time.monotonic()
        admitted = sum(is_admitted(client) for client in islice(cycle([one, two]), 3 * QUOTA))
        took_sec = time.monotonic() - began

        second.signal(signal.SIGKILL)
        killed_at = time.monotonic()
        first.out.wait_for("gateway left")
        forgotten_sec = time.monotonic() - killed_at
        until(lambda: is_admitted(one), lambda admitted: not admitted)
        began = time.monotonic()
        until(lambda: time.monotonic() - began, lambda passed: passed > QUIET_SEC)
        alone = 0
        while is_admitted(one):
            alone += 1

    # What is earned while the requests are sent comes on top.
    assert QUOTA * 0.9 <= admitted <= QUOTA * 1.1 + took_sec * PER_SEC
    assert forgotten_sec < 5.0
    assert alone >= QUIET_SEC * PER_SEC * 0.9


def test_a_gateway_on_all_addresses_knows_its_proxy_and_the_clients_behind_it(tmp_path: Path) -> None:
    env = {"PYOCO_HTTP_TRUSTED_PROXIES": "127.0.0.1", "PYOCO_RATE_LIMIT_API_READ_PER_MIN": "1"}
    # The peers of a socket for both kinds of addresses are IPv6 addresses.
    with up(tmp_path, "--host", "::", env=env) as program:
        address = f"http://127.0.0.1:{httpx.URL(address_of(program)).port}"
        with httpx.Client(base_url=address, timeout=30.0) as client:
            clients = ("198.51.100.7", "198.51.100.7", "198.51.100.8")
            found = [client.get("/runs", headers={"X-Forwarded-For": one}).status_code for one in clients]

    assert found == [200, 429, 200]
