"""A broker that will never do what is needed is told from one that is away, and each reason from the others."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.adapters.jetstream.connect import Connection
from pyoco_server.adapters.jetstream.refusals import (
    CertificateRefused,
    JetStreamDisabled,
    LimitReached,
    LoginRefused,
    NotPermitted,
    TlsMissing,
    TooFewServers,
)
from pyoco_server.adapters.jetstream.topology import ensure_resources
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import BrokerRefused
from support.broker import Broker

DENIED = 'authorization {{ users: [ {{user: a, password: b, permissions: {{publish: {{deny: ["{}"]}}}}}} ] }}'
# Unused capacity is reserved by the stream with a maximum size.
FEW_STREAMS = "accounts: { A: { jetstream: {max_streams: 3, max_file: 10GB}, users: [{user: a, password: b}] } }"
NO_STREAMS = "accounts: { A: { users: [{user: a, password: b}] }, B: { jetstream: enabled } }"


async def start(config: NatsBackendConfig) -> None:
    async with await Connection.open(config, timeout_sec=1.0) as connection:
        await ensure_resources(connection, config)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A self-signed certificate for the loopback address, and its key."""
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=nats", "-days", "2"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    return certificate, key


@pytest.mark.parametrize(
    ("server", "settings", "error", "words"),
    [
        ({}, {"nats_replicas": 3}, TooFewServers, "PYOCO_NATS_REPLICAS is 3, but nats is 1 server and no cluster"),
        ({"jetstream": False}, {}, JetStreamDisabled, "nats answers, but runs without JetStream"),
        ({"more": NO_STREAMS}, {"login": "a:b@"}, JetStreamDisabled, "JetStream not enabled for account"),
        ({"more": "authorization { token: right }"}, {"nats_token": "wrong"}, LoginRefused, "Authorization Violation"),
        (
            {"more": DENIED.format("$JS.API.STREAM.CREATE.>")},
            {"login": "a:b@"},
            NotPermitted,
            "nats does not permit this user to publish to $JS.API.STREAM.CREATE.PYOCO_EVENTS",
        ),
        ({"store": "max_file_store: 10MB"}, {}, LimitReached, "lower PYOCO_DLQ_MAX_BYTES"),
        ({"more": FEW_STREAMS}, {"login": "a:b@"}, LimitReached, "maximum number of streams reached"),
        ({}, {"scheme": "tls"}, TlsMissing, "does not require TLS"),
    ],
    ids=["replicas", "no jetstream", "no account", "token", "permission", "storage", "streams", "no tls"],
)
async def test_each_refusal_has_its_own_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    server: dict[str, Any],
    settings: dict[str, Any],
    error: type[BrokerRefused],
    words: str,
) -> None:
    monkeypatch.setattr("pyoco_server.adapters.jetstream.connect.API_SEC", 0.5)
    with Broker(tmp_path, **server) as broker:
        scheme, login = settings.pop("scheme", "nats"), settings.pop("login", "")
        url = f"{scheme}://{login}127.0.0.1:{broker.port}"

        with pytest.raises(error) as refused:
            await start(NatsBackendConfig(nats_url=url, **settings))

    assert words in refused.value.detail
    assert refused.value.err_id == "ERR-PYOCO-0090"


async def test_a_certificate_of_an_unknown_authority_is_refused_and_a_known_one_is_accepted(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    file, key = certificate
    with Broker(tmp_path, more=f'tls {{ cert_file: "{file}", key_file: "{key}" }}') as broker:
        config = NatsBackendConfig(nats_url=broker.url)
        trusting = NatsBackendConfig(nats_url=broker.url, nats_tls_ca_file=str(file))

        with pytest.raises(CertificateRefused, match="self-signed certificate") as refused:
            await start(config)
        await start(trusting)

    assert isinstance(refused.value.__cause__, ssl.SSLCertVerificationError)


async def test_credentials_are_not_sent_where_tls_is_wanted_and_not_required(tmp_path: Path) -> None:
    """The server would report a wrong login; it never sees one."""
    with Broker(tmp_path, more="authorization { token: right }") as broker:
        url = f"tls://127.0.0.1:{broker.port}"

        with pytest.raises(TlsMissing):
            await start(NatsBackendConfig(nats_url=url, nats_token="wrong"))
