"""The commands for executions and graphs: their requests and their output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.shells import RunClient
from support.stand_in import Events, StandIn
from support.terminal import Terminal

ID = "0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11"
AT = "2026-01-01T00:00:{:06.3f}Z"
ACCEPTED = {"executionId": ID, "command": "StartExecution", "accepted": True, "version": 3}


def event(kind: str, second: float = 0.0, **payload: Any) -> dict[str, Any]:
    actor = {"kind": "user", "id": "ann"}
    return {"type": kind, "occurredAt": AT.format(second), "payload": payload, "actor": actor, "version": 1}


def node(name: str, status: str, **more: Any) -> dict[str, Any]:
    return {"nodeId": name, "status": status, "attempt": 1, "canceledByExecution": False, **more}


CREATED = event("EXECUTION_CREATED", graph={"nodes": [{"id": "build"}, {"id": "approve"}]}, request={"flowName": "r"})
HISTORY = [
    CREATED,
    event("EXECUTION_STARTED", attempt=0),
    event("NODE_READY", nodeId="build"),
    event("NODE_STARTED", 1.0, nodeId="build", attempt=2, workerId="w-1"),
    event("NODE_PROGRESS_REPORTED", 2.0, nodeId="build", progress=42.0, message="compiling\x1b[2J"),
    event("NODE_SUCCEEDED", 3.5, nodeId="build", attempt=2, output={"file": "app.tgz"}),
    event("NODE_WAITING", 3.5, nodeId="approve", attempt=1, waitKey="go", prompt={"question": "Ship?"}),
    event("NODE_SUCCEEDED", 4.0, nodeId="approve", attempt=1),
    event("EXECUTION_COMPLETED", 4.0),
]
WAIT = {
    "executionId": ID,
    "graphId": "release",
    "nodeId": "approve",
    "attempt": 1,
    "waitKey": "go",
    "prompt": {"question": "Ship?"},
    "waitingSince": None,
    "deadlineAt": None,
}
EXECUTION = {
    "executionId": ID,
    "status": "ACTIVE",
    "graphId": "release",
    "graphVersion": 2,
    "input": {"version": "1.4.0"},
    "startedAt": AT.format(0),
    "nodes": [
        node("build", "SUCCEEDED", startedAt=AT.format(1), endedAt=AT.format(3.5), workerId="w-1"),
        node("approve", "WAITING", waitKey="go", prompt={"question": "Ship?"}),
        node("deploy", "IDLE", attempt=0),
    ],
}
GRAPH = {"graphId": "release", "version": 2, "source": "graph", "nodeCount": 5, "edgeCount": 5, "updatedBy": "ann"}


def stream(*history: dict[str, Any]) -> Events:
    return Events(tuple((one["type"], one) for one in history))


pytestmark = pytest.mark.usefixtures("clean_client")


@pytest.fixture
def responses() -> dict[str, Any]:
    return {
        "/executions": ACCEPTED,
        f"/executions/{ID}/start": ACCEPTED,
        f"/executions/{ID}": EXECUTION,
        f"/executions/{ID}/events": {"executionId": ID, "items": HISTORY, "nextCursor": None},
        f"/executions/{ID}/nodes/approve/resume": ACCEPTED | {"command": "ResumeNode"},
        f"/executions/{ID}/nodes/approve/fail": ACCEPTED | {"command": "FailNode"},
        "/waits": {"items": [WAIT], "nextCursor": "c-2"},
        "/graphs": {"items": [GRAPH], "nextCursor": None},
        "/graphs/release": GRAPH | {"created": True},
    }


def test_execute_creates_with_the_params_and_starts(end: RunClient, server: StandIn) -> None:
    code = end("execute", "release", "--params", '{"a": 1}', "--param", "b=two", "--tag", "gpu")

    assert code == 0
    assert server.requests == [("POST", "/executions"), ("POST", f"/executions/{ID}/start")]
    assert json.loads(server.bodies[0]) == {
        "graphId": "release",
        "input": {"a": 1, "b": "two"},
        "tag": "gpu",
        "strict": True,
    }
    assert len({headers["Idempotency-Key"] for headers in server.headers}) == 1
    assert json.loads(end.printed().out) == ACCEPTED


def test_execute_prints_only_what_is_asked_for(end: RunClient, server: StandIn) -> None:
    assert end("execute", "release", "--template", "{id}") == 0
    assert end.printed().out == f"{ID}\n"


@pytest.mark.parametrize("words", [("--json", "id,nope"), ("--json", "id", "--watch")])
def test_execute_refuses_what_could_not_be_shown_before_it_starts(
    end: RunClient, server: StandIn, words: tuple[str, ...]
) -> None:
    assert end("execute", "release", *words) == 1
    assert server.requests == []


def test_an_unknown_graph_name_prints_a_warning(end: RunClient, server: StandIn) -> None:
    server.responses[f"/executions/{ID}"] = EXECUTION | {"graphId": "relaese", "graphVersion": None, "tag": None}

    assert end("execute", "relaese") == 0
    printed = end.printed()
    assert json.loads(printed.out) == ACCEPTED
    assert "no graph or flow has the name relaese: this is an open graph" in printed.err
    assert "pyoco-client graphs" in printed.err


def test_execute_succeeds_without_permission_to_read(end: RunClient, server: StandIn) -> None:
    del server.responses[f"/executions/{ID}"]

    assert end("execute", "release") == 0
    printed = end.printed()
    assert (json.loads(printed.out), printed.err) == (ACCEPTED, "")


def test_watch_prints_events_to_the_end_and_how_to_approve(end: RunClient, server: StandIn) -> None:
    server.responses[f"/executions/{ID}/events"] = stream(*HISTORY)

    code = end("execute", "release", "--watch")

    printed = end.printed()
    lines = printed.out.splitlines()
    assert code == 0
    assert lines[4] == "2026-01-01T00:00:02.000Z  NODE_PROGRESS_REPORTED  build  user/ann  42% compiling\ufffd[2J"
    assert lines[-1] == f"execution {ID} COMPLETED in 4.0s (2 SUCCEEDED)"
    assert printed.err == f"started: {ID}\nwaits for approval: pyoco-client approve {ID} --node approve\n"


@pytest.mark.parametrize(
    ("last", "printed"),
    [
        (
            event("EXECUTION_FAILED", 2.0, error={"code": "E", "message": "no room"}),
            "FAILED in 2.0s (2 CANCELLED): E: no",
        ),
        (event("EXECUTION_CANCELED", 2.0, how="cooperative"), "CANCELLED in 2.0s (2 CANCELLED)"),
    ],
)
def test_watch_fails_when_the_execution_does_not_complete(
    end: RunClient, server: StandIn, last: dict[str, Any], printed: str
) -> None:
    server.responses[f"/executions/{ID}/events"] = stream(*HISTORY[:3], last)

    assert end("execute", "release", "--watch") == 1
    assert f"execution {ID} {printed}" in end.printed().out


def test_watch_prints_json_lines_for_programs(end: RunClient, server: StandIn) -> None:
    server.responses[f"/executions/{ID}/events"] = stream(*HISTORY)

    assert end("execute", "release", "--watch", "-o", "json") == 0

    printed = [json.loads(line) for line in end.printed().out.splitlines()]
    assert [one["type"] for one in printed] == [one["type"] for one in HISTORY]


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        (["execution", ID, "-o", "json"], f"/executions/{ID}"),
        (
            ["waits", "--graph-id", "release", "--limit", "5", "--cursor", "c"],
            "/waits?graphId=release&limit=5&cursor=c",
        ),
        (["graphs", "--q", "rel"], "/graphs?q=rel"),
    ],
    ids=["execution", "waits", "graphs"],
)
def test_a_command_sends_one_request_and_prints_the_response_as_json(
    end: RunClient, server: StandIn, arguments: list[str], requests: str
) -> None:
    assert end(*arguments) == 0

    assert server.requests == [("GET", requests)]
    assert json.loads(end.printed().out) == server.responses[requests.partition("?")[0]]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            ["waits", "-o", "table"],
            "EXECUTION_ID                          GRAPH    NODE     SINCE  DEADLINE  PROMPT\n"
            f'{ID}  release  approve  -      -         {{"question": "Ship?"}}\n',
        ),
        (
            ["graphs", "-o", "table"],
            "GRAPH    VERSION  SOURCE  NODES  UPDATED  BY   TITLE\nrelease  2        graph   5      -        ann  -\n",
        ),
    ],
    ids=["waits", "graphs"],
)
def test_lists_are_printed_as_tables(end: RunClient, server: StandIn, arguments: list[str], shown: str) -> None:
    assert end(*arguments) == 0
    assert end.printed().out == shown


def test_an_execution_is_shown_with_its_nodes(end: RunClient, server: StandIn) -> None:
    assert end("execution", ID) == 0

    lines = end.printed().out.splitlines()
    assert f"execution: {ID}" in lines
    assert "graph:     release (version 2)" in lines
    assert lines[-4:] == [
        "   NODE     STATUS     TIME  WORKER  DETAIL",
        "✓  build    SUCCEEDED  2.5s  w-1",
        '?  approve  WAITING    -     -       waits for go {"question": "Ship?"}',
        "·  deploy   IDLE       -     -",
    ]


def test_events_show_actor_action_and_time(end: RunClient, server: StandIn) -> None:
    assert end("events", ID) == 0

    head, *rows = end.printed().out.splitlines()
    assert head.split() == ["WHEN", "EVENT", "NODE", "WHO", "DETAIL"]
    assert len(rows) == len(HISTORY)
    assert rows[3].split() == [
        "2026-01-01T00:00:01.000Z",
        "NODE_STARTED",
        "build",
        "user/ann",
        *["by", "w-1", "(attempt", "2)"],
    ]


@pytest.mark.parametrize("form", ["table", "json"])
def test_events_are_followed_to_the_end(end: RunClient, server: StandIn, form: str) -> None:
    server.responses[f"/executions/{ID}/events"] = stream(*HISTORY)

    assert end("events", ID, "--follow", "-o", form) == 0
    assert len(end.printed().out.splitlines()) == len(HISTORY)


def test_the_only_waiting_node_is_approved_without_its_name(end: RunClient, server: StandIn) -> None:
    assert end("approve", ID, "--answer", '{"ship": true}') == 0

    assert server.requests[-1] == ("POST", f"/executions/{ID}/nodes/approve/resume")
    assert json.loads(server.bodies[-1]) == {"resumeKey": "go", "answer": {"ship": True}, "attempt": 1}


@pytest.mark.parametrize(("options", "message"), [([], "rejected"), (["--reason", "not today"], "not today")])
def test_a_rejected_node_fails_with_the_reason(
    end: RunClient, server: StandIn, options: list[str], message: str
) -> None:
    assert end("approve", ID, "--node", "approve", "--reject", *options) == 0

    assert server.requests[-1] == ("POST", f"/executions/{ID}/nodes/approve/fail")
    assert json.loads(server.bodies[-1]) == {"error": {"code": "REJECTED", "message": message}, "attempt": 1}


def asking(server: StandIn, *choices: Any) -> None:
    prompt = {"question": "Ship this build?", "choices": list(choices)}
    waits = [node("approve", "WAITING", waitKey="go", prompt=prompt)]
    server.responses[f"/executions/{ID}"] = EXECUTION | {"nodes": waits}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("stop", "stop"),
        ('"stop"', "stop"),
        ("not today", "not today"),
        ("1.4.0", "1.4.0"),
        ("2", 2),
        ("true", True),
        ('{"choice": "stop"}', {"choice": "stop"}),
    ],
)
def test_an_answer_is_json_or_else_a_text(end: RunClient, server: StandIn, given: str, sent: Any) -> None:
    asking(server, "ship", "stop")

    assert end("approve", ID, "--answer", given) == 0

    assert json.loads(server.bodies[-1])["answer"] == sent


def test_without_a_terminal_the_choices_are_listed_and_one_must_be_given(end: RunClient, server: StandIn) -> None:
    asking(server, "ship it", "stop")

    assert end("approve", ID) == 1

    printed = end.printed().err
    assert "approve asks Ship this build?: choose by --answer one of ship it, stop" in printed
    assert f"example: pyoco-client approve {ID} --node approve --answer 'ship it'" in printed
    assert [method for method, _ in server.requests] == ["GET"]


@pytest.mark.parametrize("typed", ["stop", "2"], ids=["by name", "by number"])
def test_on_a_terminal_the_choice_is_asked_for(server: StandIn, tmp_path: Path, typed: str) -> None:
    asking(server, "ship", "stop")
    command = ["-m", "pyoco_server.cli.client", "approve", ID]

    with Terminal(*command, cwd=tmp_path, env={"PYOCO_SERVER": server.address}, has_keyboard=True) as terminal:
        terminal.wait_for("Ship this build?")
        terminal.wait_for("2. stop")
        terminal.wait_for("choice: ")
        terminal.enter("banana")
        terminal.wait_for("one of: ship, stop")
        terminal.enter(typed)
        code, _ = terminal.end()

    assert code == 0
    assert json.loads(server.bodies[-1]) == {"resumeKey": "go", "answer": "stop", "attempt": 1}


def test_the_end_of_the_input_answers_nothing(server: StandIn, tmp_path: Path) -> None:
    asking(server, "ship", "stop")
    command = ["-m", "pyoco_server.cli.client", "approve", ID]

    with Terminal(*command, cwd=tmp_path, env={"PYOCO_SERVER": server.address}, has_keyboard=True) as terminal:
        terminal.wait_for("choice: ")
        terminal.enter("\x04")
        terminal.enter("\x04")
        code, _ = terminal.end()

    assert code == 130
    assert [method for method, _ in server.requests] == ["GET"]


def test_a_choice_that_reads_as_json_is_suggested_in_quotes(end: RunClient, server: StandIn) -> None:
    asking(server, "[later]", "stop")

    assert end("approve", ID) == 1
    assert """--answer '"[later]"'""" in end.printed().err


def test_a_rejection_needs_no_choice(end: RunClient, server: StandIn) -> None:
    asking(server, "ship", "stop")

    assert end("approve", ID, "--reject") == 0
    assert server.requests[-1] == ("POST", f"/executions/{ID}/nodes/approve/fail")


def test_skipped_nodes_and_choices_are_shown(end: RunClient, server: StandIn) -> None:
    nodes = [
        node("approve", "SUCCEEDED", choice="stop", answer="stop"),
        node("deploy", "CANCELED", attempt=0, reason="skipped"),
    ]
    server.responses[f"/executions/{ID}"] = EXECUTION | {"status": "COMPLETED", "nodes": nodes}

    assert end("execution", ID) == 0

    assert [line.split() for line in end.printed().out.splitlines()[-2:]] == [
        ["✓", "approve", "SUCCEEDED", "-", "-", "chosen:", "stop"],
        ["■", "deploy", "CANCELLED", "-", "-", "skipped"],
    ]


def test_a_followed_execution_shows_what_was_skipped(end: RunClient, server: StandIn) -> None:
    ended = [
        *HISTORY[:7],
        event("NODE_RESUMED", 4.0, nodeId="approve", attempt=1, answer="stop", choice="stop"),
        event("NODE_SUCCEEDED", 4.0, nodeId="approve", attempt=1, output="stop"),
        event("NODE_CANCELED", 4.0, nodeId="deploy", byExecution=False, reason="skipped"),
        event("EXECUTION_COMPLETED", 4.0),
    ]
    server.responses[f"/executions/{ID}/events"] = stream(*ended)

    assert end("execute", "release", "--watch") == 0

    lines = end.printed().out.splitlines()
    assert lines[-3].endswith("NODE_CANCELED  deploy  user/ann  skipped")
    assert lines[-1].endswith("COMPLETED in 4.0s (2 SUCCEEDED, 1 CANCELLED)")


def test_several_waiting_nodes_are_listed_and_one_must_be_named(end: RunClient, server: StandIn) -> None:
    several = [node("approve", "WAITING", waitKey="go", prompt="Ship?"), node("sign off", "WAITING", waitKey="sign")]
    server.responses[f"/executions/{ID}"] = EXECUTION | {"nodes": several}

    assert end("approve", ID) == 1

    printed = end.printed().err
    assert "- approve: Ship?\n- sign off: sign\n" in printed
    assert "2 nodes wait" in printed
    assert f"example: pyoco-client approve {ID} --node approve" in printed
    assert end("approve", ID, "--node", "build") == 1
    assert "'build' does not wait" in end.printed().err
    assert [method for method, _ in server.requests] == ["GET", "GET"]


def test_approve_without_a_waiting_node_prints_the_status(end: RunClient, server: StandIn) -> None:
    server.responses[f"/executions/{ID}"] = EXECUTION | {"status": "COMPLETED", "nodes": []}

    assert end("approve", ID) == 1
    printed = end.printed().err
    assert f"nothing waits in execution {ID} (COMPLETED)" in printed
    assert f"example: pyoco-client explain {ID}" in printed


@pytest.mark.parametrize(
    ("file", "content", "kind"),
    [
        ("release.yaml", "nodes: [build]\n", "application/yaml"),
        ("release.json", '{"nodes":["build"]}', "application/json"),
    ],
)
def test_a_graph_has_the_name_of_its_file(
    end: RunClient, tmp_path: Path, server: StandIn, file: str, content: str, kind: str
) -> None:
    (tmp_path / file).write_text(content)

    assert end("graph-put", str(tmp_path / file), "--expected-version", "0") == 0

    assert server.requests == [("PUT", "/graphs/release?expectedVersion=0")]
    assert (server.bodies[0].decode(), server.headers[0]["Content-Type"]) == (content, kind)


@pytest.mark.parametrize("content", ["[1]", "{"])
def test_a_file_that_is_not_a_json_object_is_not_sent(
    end: RunClient, tmp_path: Path, server: StandIn, content: str
) -> None:
    (tmp_path / "release.json").write_text(content)

    assert end("graph-put", str(tmp_path / "release.json")) == 1
    assert "release.json: not" in end.printed().err
    assert server.requests == []
