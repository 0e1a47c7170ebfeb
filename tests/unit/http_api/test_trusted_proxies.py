"""The client behind trusted proxies: only what they say counts, and only if it is an address."""

from __future__ import annotations

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidUsage
from pyoco_server.http_api.middleware.trusted_proxies import MAX_HOPS, TrustedProxies

PROXIES = TrustedProxies("10.0.0.5, 192.168.0.0/16,2001:db8:1::/48")


@pytest.mark.parametrize(
    "host", ["10.0.0.5", "192.168.7.7", "2001:db8:1::9", "2001:DB8:1:0::9", "::ffff:10.0.0.5", "2001:db8:1::9%eth0"]
)
def test_listed_addresses_and_those_of_listed_networks_are_trusted(host: str) -> None:
    assert PROXIES.trusts(host)


@pytest.mark.parametrize("host", ["10.0.0.6", "192.169.0.1", "2001:db8:2::1", "::1", "", "proxy", "::ffff:10.0.0.6"])
def test_others_are_not(host: str) -> None:
    assert not PROXIES.trusts(host)


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ([b"198.51.100.7"], "198.51.100.7"),
        ([b"198.51.100.7, 192.168.1.1"], "198.51.100.7"),
        ([b"203.0.113.9, 198.51.100.7, 192.168.1.1,10.0.0.5"], "198.51.100.7"),
        ([b"203.0.113.9", b"198.51.100.7, 10.0.0.5"], "198.51.100.7"),
        ([b"10.0.0.5, 192.168.1.1"], "10.0.0.5"),
        ([b"198.51.100.7:4711"], "198.51.100.7"),
        ([b"2001:db8:2::7"], "2001:db8:2::7"),
        ([b"[2001:DB8:2::7]:4711 , 10.0.0.5"], "2001:db8:2::7"),
        ([b"fe80::1%" + b"x" * 5000], "fe80::1"),
        ([b"::ffff:198.51.100.7"], "198.51.100.7"),
        ([b"unknown, 192.168.1.1"], "192.168.1.1"),
        ([b"198.51.100.7, <script>, 192.168.1.1"], "192.168.1.1"),
        ([b"198.51.100.7,, 10.0.0.5"], "10.0.0.5"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_client_is_the_last_address_that_is_no_proxy(forwarded: list[bytes], client: str) -> None:
    assert PROXIES.client(forwarded) == client


@pytest.mark.parametrize(
    "forwarded",
    [[], [b""], [b"garbage"], [b"198.51.100.7, garbage"], [b"1.2.3"], [b"x" * 60_000], [b"\xff\x00"], [b"[::1"[:2]]],
    ids=lambda value: str(value)[:20],
)
def test_without_a_readable_last_entry_there_is_no_client(forwarded: list[bytes]) -> None:
    assert PROXIES.client(forwarded) is None


def test_a_list_without_end_is_read_for_some_hops_only() -> None:
    hops = [f"192.168.{number // 256}.{number % 256}" for number in range(4_000)]

    assert PROXIES.client([", ".join(hops).encode()]) == hops[-MAX_HOPS]


def test_a_star_trusts_everyone_and_still_reads_addresses_only() -> None:
    anyone = TrustedProxies("*")

    assert anyone.trusts("203.0.113.1")
    assert anyone.client([b"198.51.100.7, 203.0.113.1"]) == "198.51.100.7"
    assert anyone.client([b"garbage, 203.0.113.1"]) == "203.0.113.1"


@pytest.mark.parametrize(
    "setting", ["10.0.0.5/8", "999.1.1.1", "10.0.0.0/33", "proxy.internal", "*,10.0.0.1", "1::2::3"]
)
def test_what_is_no_address_is_refused_at_the_start(setting: str) -> None:
    with pytest.raises(InvalidUsage, match="PYOCO_HTTP_TRUSTED_PROXIES"):
        NatsBackendConfig.from_env({"PYOCO_HTTP_TRUSTED_PROXIES": setting})


@pytest.mark.parametrize("setting", ["*", " * ", "10.0.0.5", "10.0.0.0/8, ::1", "2001:db8::/32,", ""])
def test_addresses_and_networks_are_accepted(setting: str) -> None:
    assert NatsBackendConfig.from_env({"PYOCO_HTTP_TRUSTED_PROXIES": setting}).http_trusted_proxies == setting.strip()
