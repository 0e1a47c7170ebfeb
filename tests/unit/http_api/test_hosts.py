"""Hosts: the gateway answers to addresses, to localhost and to listed names, and to no other name."""

from __future__ import annotations

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import HostRefused, InvalidUsage, PyocoError
from pyoco_server.http_api.middleware.hosts import HostCheck, MalformedHost


def refusal_of(*hosts: bytes, allowed: str = "") -> PyocoError | None:
    check = HostCheck(NatsBackendConfig(http_allowed_hosts=allowed))
    return check.refusal([(b"accept", b"*/*"), *((b"host", host) for host in hosts)])


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LocalHost:8000",
        b"localhost.",
        b"localhost:",
        b"127.0.0.1:8000",
        b"192.168.1.20",
        b"[::1]",
        b"[::1]:8000",
        b"[::ffff:127.0.0.1]:80",
        b"[fe80::1%25eth0]:8000",
    ],
)
def test_addresses_and_localhost_are_allowed(host: bytes) -> None:
    assert refusal_of(host) is None


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example",
        b"evil.example:8000",
        b"localhost.evil.example",
        b"127.0.0.1.evil.example",
        b"a.localhost",
        b"xlocalhost",
        b"0x7f.1",
        b"127.1",
        b"2130706433",
        b"127.0.0.1.",
        b"localhost..",
        b"xn--lcalhost-n7a",
    ],
)
def test_other_names_are_refused_with_the_setting_that_allows_them(host: bytes) -> None:
    refusal = refusal_of(host)

    assert isinstance(refusal, HostRefused)
    assert "PYOCO_HTTP_ALLOWED_HOSTS" in refusal.detail
    assert "PYOCO_HTTP_ALLOWED_HOSTS" in refusal.hint


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        (b"",),
        (b"localhost", b"localhost"),
        (b"localhost", b"evil.example"),
        (b"localhost, evil.example",),
        (b"localhost evil.example",),
        (b"user@localhost",),
        (b"localhost:80:80",),
        (b"localhost:http",),
        (b"localhost:123456",),
        (b"localhost/path",),
        (b"[::1",),
        (b"[::1]x",),
        (b"[localhost]",),
        (b"[1:2]",),
        (b"::1",),
        ("löcalhost".encode(),),
        (b"local\x00host",),
        (b"localhost\r\n evil.example",),
        (b"http://localhost",),
    ],
)
def test_missing_repeated_and_malformed_hosts_are_refused(hosts: tuple[bytes, ...]) -> None:
    assert isinstance(refusal_of(*hosts, allowed="evil.example"), MalformedHost)


def test_listed_names_are_allowed_in_any_case_and_with_any_port() -> None:
    listed = "Pyoco.Example.org, *.internal,my_host"

    allowed = [
        b"pyoco.example.ORG:9",
        b"pyoco.example.org.",
        b"a.internal",
        b"a.b.INTERNAL:1",
        b"my_host",
        b"localhost",
    ]
    refused = [b"example.org", b"a.pyoco.example.org", b"internal", b"xinternal", b"internal.evil.example"]

    assert [host for host in allowed if refusal_of(host, allowed=listed)] == []
    assert [host for host in refused if not isinstance(refusal_of(host, allowed=listed), HostRefused)] == []


@pytest.mark.parametrize("setting", ["*", "a,*", "http://a", "a:80", "a.*", "*a", "*.", "a..b", ".a", "bücher.example"])
def test_a_setting_that_is_no_list_of_names_is_refused(setting: str) -> None:
    with pytest.raises(InvalidUsage, match="PYOCO_HTTP_ALLOWED_HOSTS"):
        NatsBackendConfig(http_allowed_hosts=setting)
