"""What `pyoco-server up` prints: true in every mode, with commands that lead to the same broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyoco_server.cli.up_banner import Banner
from pyoco_server.config import NatsBackendConfig

EXTERNAL = "nats://broker.example:4222"


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A working directory, a home and a host name of the test's own."""
    monkeypatch.setenv("LANG", "C")
    monkeypatch.delenv("PYOCO_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("socket.gethostname", lambda: "box")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def banner(
    *,
    host: str = "127.0.0.1",
    bound: str | None = None,
    url_given: bool = False,
    has_dashboard: bool = False,
    **settings: Any,
) -> Banner:
    return Banner(
        config=NatsBackendConfig(**settings),
        host=host,
        bound=(bound or host, 8000),
        embedded="nats_url" not in settings,
        url_given=url_given,
        has_dashboard=has_dashboard,
    )


def with_runs(folder: Path) -> Path:
    block = folder / "nats" / "jetstream" / "$G" / "streams" / "PYOCO_EVENTS" / "msgs" / "1.blk"
    block.parent.mkdir(parents=True)
    block.write_bytes(b"event")
    return folder


def test_an_embedded_broker_is_named_by_its_folder(here: Path) -> None:
    (line,) = banner(data_dir="data").started()

    assert line == f"pyoco-server is up: http://127.0.0.1:8000   (Ctrl-C stops it; data in {here / 'data'})"


def test_the_dashboard_comes_first_where_there_is_one() -> None:
    without, with_one = [list(banner(has_dashboard=has).started()) for has in (False, True)]

    assert with_one == ["dashboard: http://127.0.0.1:8000/", *without]


def test_another_broker_is_named_by_its_address_without_secrets() -> None:
    (line,) = banner(nats_url="nats://ann:secret@broker.example:4222").started()

    assert line.endswith("(Ctrl-C stops it; data in NATS at nats://***@broker.example:4222)")


def test_a_data_folder_that_was_found_here_is_said_to_be(here: Path) -> None:
    (here / ".pyoco" / "nats").mkdir(parents=True)

    (line,) = banner().started()

    assert f"data in {here / '.pyoco'}, found here" in line


def test_other_folders_with_runs_are_named(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user, named = with_runs(here.parent / "home" / "pyoco-server"), with_runs(here / "named one")
    monkeypatch.setenv("PYOCO_DATA_DIR", str(named))
    with_runs(here / ".pyoco")

    _, *others = banner(data_dir=".pyoco").started()

    assert others == [
        f"earlier runs are in another folder: pyoco-server up --data-dir '{named}'",
        f"earlier runs are in another folder: pyoco-server up --data-dir {user}",
    ]


def test_an_empty_folder_is_not_named(here: Path) -> None:
    (here / ".pyoco" / "nats" / "jetstream").mkdir(parents=True)

    assert len(list(banner(data_dir="data").started())) == 1


@pytest.mark.parametrize(
    ("settings", "url_given", "expected"),
    [
        ({"data_dir": "/a b"}, False, "next: pyoco-worker --data-dir '/a b'"),
        ({"nats_url": EXTERNAL}, True, f"next: pyoco-worker --nats-url {EXTERNAL}"),
        ({"nats_url": EXTERNAL}, False, "next: pyoco-worker   (with the same PYOCO_NATS_URL)"),
        (
            {"nats_url": EXTERNAL, "nats_token": "t", "nats_tls_ca_file": "ca.pem"},
            True,
            f"next: pyoco-worker --nats-url {EXTERNAL}   (with the same PYOCO_NATS_TOKEN, PYOCO_NATS_TLS_CA_FILE)",
        ),
        (
            {"nats_url": "nats://ann:secret@h:1"},
            True,
            "next: pyoco-worker --nats-url 'nats://***@h:1'   (with the same credentials in place of ***)",
        ),
    ],
)
def test_a_worker_is_led_to_the_same_broker(settings: dict[str, Any], url_given: bool, expected: str) -> None:
    first, _ = banner(url_given=url_given, **settings).without_worker()

    assert first == expected


def test_the_command_for_a_first_key_leads_to_the_same_broker() -> None:
    settings: dict[str, Any] = {"http_auth_mode": "api_key", "auth_pepper": "p", "nats_url": EXTERNAL}

    _, line = banner(url_given=True, **settings).started()

    assert line == (
        f"requests need a key: pyoco-server-admin api-key create --tenant team-a --nats-url {EXTERNAL}   "
        "(with the same PYOCO_AUTH_PEPPER)"
    )


@pytest.mark.parametrize(
    ("host", "bound", "allowed", "name"),
    [
        ("0.0.0.0", None, "", "box"),
        ("::", None, "", "box"),
        ("192.0.2.7", None, "", "box"),
        ("gate.example", "127.0.1.1", "", "gate.example"),
        ("gate.example", "192.0.2.7", "*.example", None),
        ("0.0.0.0", None, "box", None),
        ("localhost", "127.0.0.1", "", None),
        ("::1", None, "", None),
    ],
)
def test_who_may_call_it_by_a_name_is_said_where_names_are_used(
    host: str, bound: str | None, allowed: str, name: str | None
) -> None:
    lines = list(banner(host=host, bound=bound, http_allowed_hosts=allowed).started())[1:]

    assert [line.rpartition("=")[2] for line in lines] == ([name] if name else [])


@pytest.mark.parametrize(
    ("bound", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("192.0.2.7", "http://192.0.2.7:8000"),
    ],
)
def test_the_address_works_on_this_machine(bound: str, address: str) -> None:
    assert banner(host=bound).address == address


def test_a_first_flow_yaml_is_written_before_it_is_submitted(here: Path) -> None:
    absent = list(banner().with_worker([], has_resolver=False))
    (here / "flow.yaml").touch()
    present = list(banner().with_worker([], has_resolver=False))

    submit = f"try: curl -s http://127.0.0.1:8000/runs/yaml -F workflow=@{here}/flow.yaml -F flow_name=hello"
    assert absent == [f"first: pyoco-client init {here}", *present]
    assert present == [submit, "then: curl -s http://127.0.0.1:8000/runs"]


@pytest.mark.parametrize(
    ("served", "body"),
    [
        (["bye", "hello"], '{"flow_name":"hello","params":{"name":"world"}}'),
        (["bye"], '{"flow_name":"bye","params":{}}'),
    ],
)
def test_a_flow_that_the_worker_serves_is_tried(served: list[str], body: str) -> None:
    first, _ = banner(http_auth_mode="api_key", auth_pepper="p").with_worker(served, has_resolver=True)

    assert first.endswith(f"/runs -H 'X-API-Key: KEY' -H 'Content-Type: application/json' -d '{body}'")
