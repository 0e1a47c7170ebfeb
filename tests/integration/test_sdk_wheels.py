"""Wheels against a real gateway, and against peers that fail during a transfer."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.http_client import (
    GatewayUnreachable,
    InvalidRequest,
    UnexpectedAnswer,
    WheelNotFound,
    WheelVersionConflict,
)
from support.broker import Broker
from support.gateways import gateway_settings
from support.peers import Cut, Peer, Reply, Stream
from support.served import served
from support.twins import BOTH, Kind, Pauses, Twin
from support.wheels import NAME, large_wheel, wheel, wheel_name

DATA = wheel()
OURS = {
    "name": NAME,
    "size_bytes": len(DATA),
    "bucket": "b",
    "nuid": "n",
    "modified": 1.0,
    "sha256_hex": hashlib.sha256(DATA).hexdigest(),
    "tags": [],
}
CONFLICT = Reply.json({"detail": "demo is registered", "err_id": "ERR-PYOCO-0022"}, 409)
NOT_THERE = Reply.json({"detail": "wheel not found", "err_id": "ERR-PYOCO-0023"}, 404)
AWAY = Reply.json({"detail": "nats away", "err_id": "ERR-PYOCO-0003"}, 503)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("gateway")
    with Broker(folder) as broker, served(gateway_settings(broker.url, folder)) as found:
        yield found


@pytest.fixture
def twin(address: str) -> Iterator[Twin]:
    """A client of a registry that is empty, before and after."""
    there = Twin(address)
    yield there
    for one in there.ask("list_wheels"):
        there.ask("delete_wheel", one["name"])


def short_timeouts(url: str, kind: Kind = "async") -> Twin:
    return Twin(url, retries=3, timing=Pauses().timing(), kind=kind)


def test_a_wheel_is_uploaded_and_downloaded(twin: Twin, tmp_path: Path) -> None:
    registered = twin.ask("upload_wheel", NAME, DATA, tags=["gpu", "batch"])
    received = twin.ask("download_wheel", NAME, tmp_path)

    assert registered["tags"] == ["gpu", "batch"]
    assert twin.ask("list_wheels") == [registered]
    assert received == {"name": NAME, "size_bytes": len(DATA)}
    assert (tmp_path / NAME).read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("form", ["bytes", "path", "text", "file"])
def test_a_wheel_is_given_as_bytes_path_or_file(twin: Twin, tmp_path: Path, form: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(DATA)
    with path.open("rb") as file:
        file.read(10)
        data = {"bytes": DATA, "path": path, "text": str(path), "file": file}[form]

        registered = twin.ask("upload_wheel", NAME, data)

    assert registered["sha256_hex"] == hashlib.sha256(DATA).hexdigest()


def test_progress_is_reported_while_a_large_file_is_transferred(twin: Twin, tmp_path: Path) -> None:
    path = large_wheel(tmp_path / NAME, 3_000_000)
    size = path.stat().st_size
    sent: list[tuple[int, int | None]] = []
    received: list[tuple[int, int | None]] = []

    twin.ask("upload_wheel", NAME, path, progress=lambda done, total: sent.append((done, total)))
    with io.BytesIO() as target:
        twin.ask("download_wheel", NAME, target, progress=lambda done, total: received.append((done, total)))

        assert target.getvalue() == path.read_bytes()
    for calls in (sent, received):
        assert calls == sorted(calls)
        assert calls[-1] == (size, size)
        assert len(calls) > 10


def test_rejected_wheels_have_specific_errors(twin: Twin, tmp_path: Path) -> None:
    twin.ask("upload_wheel", NAME, DATA)

    with pytest.raises(WheelVersionConflict, match="is registered"):
        twin.ask("upload_wheel", NAME, DATA)
    with pytest.raises(WheelVersionConflict):
        twin.ask("upload_wheel", NAME, DATA, replace=False)
    with pytest.raises(InvalidRequest):
        twin.ask("upload_wheel", wheel_name(version="2"), b"no zip")
    with pytest.raises(InvalidRequest, match="tag"):
        twin.ask("upload_wheel", wheel_name(version="2"), wheel(version="2"), tags=["a b"])
    with pytest.raises(WheelNotFound):
        twin.ask("delete_wheel", wheel_name("nobody"))
    with pytest.raises(WheelNotFound):
        twin.ask("download_wheel", wheel_name("nobody"), tmp_path / "x.whl")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="wheel_name"):
        twin.ask("delete_wheel", "../runs")


@BOTH
def test_an_upload_whose_response_was_lost_is_found_registered(kind: Kind) -> None:
    with Peer(Cut(), CONFLICT, Reply.json([OURS])) as peer:
        assert short_timeouts(peer.url, kind=kind).ask("upload_wheel", NAME, io.BytesIO(DATA)) == OURS

    assert [requests.method for requests in peer.requests] == ["POST", "POST", "GET"]
    assert all(DATA in requests.body for requests in peer.requests[:2])


def test_a_repeated_upload_with_other_bytes_is_a_conflict() -> None:
    theirs = OURS | {"sha256_hex": "00" * 32}
    with Peer(AWAY, CONFLICT, Reply.json([theirs])) as peer, pytest.raises(WheelVersionConflict):
        short_timeouts(peer.url).ask("upload_wheel", NAME, DATA)


def test_a_conflict_at_the_first_attempt_is_not_checked() -> None:
    with Peer(CONFLICT, Reply.json([OURS])) as peer, pytest.raises(WheelVersionConflict):
        short_timeouts(peer.url).ask("upload_wheel", NAME, DATA)

    assert len(peer.requests) == 1


@BOTH
def test_a_deletion_whose_response_was_lost_is_a_success(kind: Kind) -> None:
    with Peer(Cut(), NOT_THERE) as peer:
        assert short_timeouts(peer.url, kind=kind).ask("delete_wheel", NAME) == {"name": NAME, "deleted": True}


@BOTH
@pytest.mark.parametrize(
    "broken",
    [
        Reply(body=b"other bytes", headers={"ETag": f'"{hashlib.sha256(b"these").hexdigest()}"'}),
        Stream([b"some", b"bytes"], cut=True, content_type="application/octet-stream"),
    ],
)
def test_a_corrupt_download_keeps_the_existing_file(kind: Kind, tmp_path: Path, broken: Reply | Stream) -> None:
    target = tmp_path / "kept.whl"
    target.write_bytes(b"before")

    with Peer(broken) as peer, pytest.raises((UnexpectedAnswer, GatewayUnreachable)):
        short_timeouts(peer.url, kind=kind).ask("download_wheel", NAME, target)

    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
