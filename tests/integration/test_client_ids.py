"""Ids as people give them: beginnings, @last, several at a time; and what the config commands store."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from support.shells import RunClient
from support.stand_in import Refusal, StandIn

A, B = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11", "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e22"


def run(run_id: str, status: str = "COMPLETED") -> dict[str, Any]:
    return {"run_id": run_id, "status": status, "flow_name": "hello", "tasks": {}, "submitted_at": 1.0}


@pytest.fixture
def responses() -> dict[str, Any]:
    return {
        "/runs": [run(A)],
        f"/runs/{A}": run(A),
        f"/runs/{B}": run(B, "FAILED"),
        f"/runs/{B}/cancel": run(B, "CANCELLING"),
    }


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_a_whole_id_needs_one_request_and_a_beginning_one_more(end: RunClient, server: StandIn) -> None:
    assert end("get", A, "-o", "status") == 0
    assert end("get", "0190A8", "-o", "status") == 0

    assert end.printed().out == f"{A} COMPLETED\n" * 2
    assert server.requests == [
        ("GET", f"/runs/{A}"),
        ("GET", "/runs?limit=6&id_prefix=0190a8"),
        ("GET", f"/runs/{A}"),
    ]


@pytest.mark.parametrize("command", ["cancel", "job rm"])
def test_an_ambiguous_beginning_lists_five_candidates_and_does_nothing(
    end: RunClient, server: StandIn, command: str
) -> None:
    server.responses["/runs"] = [run(f"{A[:-1]}{number}") for number in range(6)]

    assert end(*command.split(), B, "0190") == 1

    printed = end.printed().err
    assert printed.count("  COMPLETED  hello  1970-01-01") == 5
    assert "several runs have an id that begins with 0190" in printed
    assert f"pyoco-client {command} {B} {A[:-1]}0" in printed
    assert [method for method, _ in server.requests] == ["GET"]


def test_a_beginning_of_no_run_is_an_error(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = []

    assert end("explain", "beef") == 1
    assert "no listed run has an id that begins with beef" in end.printed().err


def test_an_error_of_one_id_does_not_stop_the_rest_and_decides_the_exit_code(end: RunClient, server: StandIn) -> None:
    server.responses[f"/runs/{A}"] = Refusal(404, "ERR-PYOCO-0005", "run not found")

    assert end("get", A, B, A, "--json", "id,status") == 1

    printed = end.printed()
    assert json.loads(printed.out) == [{"id": B, "status": "FAILED"}]
    assert printed.err.count(f"error: {A}: run not found [ERR-PYOCO-0005]") == 1


def test_last_is_the_run_that_was_submitted_from_here(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"run_id": B, "status": "PENDING"}

    assert end("get", "@last") == 1
    assert "there is none" in end.printed().err
    assert end("submit", "hello", "name=Ann", "n=3") == 0
    assert end("cancel", "@last", "-o", "status") == 0

    assert json.loads(server.bodies[0]) == {
        "flow_name": "hello",
        "params": {"name": "Ann", "n": 3},
        "strict": True,
    }
    assert server.requests[-1] == ("POST", f"/runs/{B}/cancel")


def test_each_profile_has_its_own_last_run(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"run_id": B, "status": "PENDING"}
    assert end("--profile", "other", "config", "set", "server", server.address) == 0

    assert end("submit", "hello") == 0
    end.printed()

    assert end("--profile", "other", "open", "@last") == 1
    assert end("open", "@last") == 0
    assert end.printed().out == f"{server.address}/#/runs/{B}\n"
    assert end("open") == 0
    assert end.printed().out == f"{server.address}/\n"


def test_a_folder_that_cannot_be_written_does_not_fail_a_submit(end: RunClient, server: StandIn, folders: Path) -> None:
    server.responses["/runs"] = {"run_id": B, "status": "PENDING"}
    (folders / "state").write_text("a file")

    assert end("submit", "hello", "--template", "{id}") == 0
    assert end.printed().out == f"{B}\n"


def test_a_selection_is_checked_before_anything_is_submitted(end: RunClient, server: StandIn) -> None:
    assert end("submit", "hello", "--json", "nope") == 1
    assert "there are: durability, run_id, status" in end.printed().err
    assert server.requests == []


def test_a_list_can_be_narrowed_by_time_and_shown_as_an_array_of_fields(end: RunClient, server: StandIn) -> None:
    server.responses["/runs"] = {"items": [run(A), run(B)], "next_cursor": "c-2"}

    assert end("list", "--since", "2026-11-19T00:00Z", "--until", "1795089600", "--json", "id") == 0

    printed = end.printed()
    assert json.loads(printed.out) == [{"id": A}, {"id": B}]
    assert printed.err == "next page: --cursor c-2\n"
    query = "cursor=&submitted_after=1795046400.000000000&submitted_before=1795089600.000000000"
    assert server.requests == [("GET", f"/runs?{query}")]


@pytest.mark.parametrize(
    ("given", "sent"), [("41", "at=41"), ("2026-11-19T00:00Z", "at=1795046400.000000000"), ("5.5", None)]
)
def test_a_past_state_is_that_of_a_time_or_a_version(
    end: RunClient, server: StandIn, given: str, sent: str | None
) -> None:
    assert end("get", A, "--at", given) == (0 if sent else 1)
    assert server.requests == ([("GET", f"/runs/{A}?{sent}")] if sent else [])


def test_a_profile_gives_server_credentials_and_output(
    end: RunClient, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYOCO_SERVER")
    monkeypatch.setattr("sys.stdin", StringIO("t-1\n"))
    work = ["--profile", "work"]
    assert end(*work, "config", "set", "server", server.address) == 0
    assert end(*work, "config", "set", "token") == 0
    assert end("config", "set", "output", "status", *work) == 0
    assert end("config", "use", "work") == 0
    end.printed()

    assert end("get", A) == 0
    assert end("get", A, "-o", "json") == 0
    assert end.printed().out.startswith(f"{A} COMPLETED\n{{")
    assert server.headers[0]["Authorization"] == "Bearer t-1"

    assert end("config", "list") == 0
    assert "t-1" not in (listed := end.printed().out)
    assert "********" in listed
    assert (end("config", "unset", "output"), end("config", "get", "output"), end("config", "get", "token")) == (
        0,
        1,
        0,
    )
    assert end.printed().out == "t-1\n"
