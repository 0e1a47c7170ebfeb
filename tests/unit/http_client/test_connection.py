"""Addresses and credentials of a client, and the redaction of secrets."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient, Timing
from pyoco_server.http_client.connection import Connection, RetryPolicy, resolve_connection


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYOCO_SERVER", raising=False)
    monkeypatch.delenv("PYOCO_API_KEY", raising=False)


def connection_of(base_url: str | None = None, **changed: Any) -> Connection:
    given: dict[str, Any] = {
        "api_key": None,
        "token": None,
        "timeout": 1.0,
        "policy": RetryPolicy(),
        "api_key_header": "X-API-Key",
        "language": None,
        "timing": Timing(),
    }
    return resolve_connection(base_url, **given | changed)


def test_the_default_gateway_is_on_this_machine() -> None:
    assert connection_of().base_url == "http://127.0.0.1:8000"


def test_arguments_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_SERVER", "http://environment:1")
    monkeypatch.setenv("PYOCO_API_KEY", "of-the-environment")

    silent, spoken = connection_of(), connection_of("http://argument:2", api_key="given")

    assert (silent.base_url, silent.headers["X-API-Key"]) == ("http://environment:1", "of-the-environment")
    assert (spoken.base_url, spoken.headers["X-API-Key"]) == ("http://argument:2", "given")


def test_a_token_replaces_the_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_API_KEY", "of-the-environment")

    headers = connection_of(token="given").headers

    assert headers["Authorization"] == "Bearer given"
    assert "X-API-Key" not in headers


def test_user_and_password_are_removed_from_the_address() -> None:
    found = connection_of("https://ann:p%40ss@host:8443/prefix/")

    assert found.base_url == "https://host:8443/prefix"
    assert found.basic_auth == ("ann", "p@ss")


@pytest.mark.parametrize(
    "address",
    ["host:8000", "ftp://host", "http://", "http://host:x", "http://[::1", "http://host?x=1", "http://host#x"],
)
def test_an_invalid_address_is_refused_and_not_echoed(address: str) -> None:
    with pytest.raises(ValueError, match="must look like") as caught:
        connection_of(address.replace("host", "user:s3cret@host"))

    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("name", ["api_key", "token", "language"])
@pytest.mark.parametrize("value", ["s3cret\n", " s3cret", "s3cret\x00", "s3crét", "s3\r\nX: y"])
def test_an_invalid_header_value_is_refused_and_not_echoed(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be") as caught:
        connection_of(**{name: value})

    assert "s3" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "X Key", "X:", "X\r\nY", "Ｘ"])
def test_an_invalid_header_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="api_key_header"):
        connection_of(api_key="s3cret", api_key_header=name)


@pytest.mark.parametrize("kind", [PyocoHttpClient, AsyncPyocoHttpClient])
def test_nothing_secret_is_in_the_repr(kind: type[PyocoHttpClient] | type[AsyncPyocoHttpClient]) -> None:
    client = kind("http://ann:s3cret@127.0.0.1:1", api_key="s3cret", token="s3cret")

    assert repr(client) == f"{kind.__name__}('http://127.0.0.1:1')"
    assert "s3cret" not in repr(client._connection)


@pytest.mark.parametrize("timeout", [0.0, -1.0])
def test_an_unusable_timeout_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        connection_of(timeout=timeout)
