"""Hostile and meaningless bodies to `/executions`: each is rejected with its error, without effect."""

from __future__ import annotations

from typing import Any

import pytest

from support.executions import BODIES, ERROR, WORKER, Caller, code_of, path_of

NOT_JSON = {
    "words": b"hello",
    "half": b'{"graphId": "open", "input": {',
    "two": b'{"graphId": "open"}{"graphId": "open"}',
    "NaN": b'{"graphId": "open", "input": {"n": NaN}}',
    "Infinity": b'{"graphId": "open", "input": {"n": -Infinity}}',
    "not UTF-8": b'{"graphId": "\xff"}',
    "a lone surrogate": b'{"graphId": "open", "input": {"s": "\\ud800"}}',
    "too deep": b'{"graphId": "open", "input": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}",
    "far too deep": b'{"graphId": "open", "input": {"a": ' + b"[" * 16_000 + b"]" * 16_000 + b"}}",
    "a huge integer": b'{"graphId": "open", "input": {"n": 18446744073709551616}}',
    "a number of a megabyte": b'{"graphId": "open", "input": {"n": ' + b"9" * 100_000 + b"}}",
}
WRONG_CREATIONS: list[Any] = [
    [],
    "open",
    42,
    True,
    {},
    {"graphId": "open", "input": []},
    {"graphId": "open", "input": None},
    {"graphId": "open", "input": "text"},
    {"graphId": ""},
    {"graphId": None},
    {"graphId": 7},
    {"graphId": ["open"]},
    {"graphId": "x" * 129},
    {"graphId": "two\nlines"},
    {"graphId": "nul\0"},
    {"graph_id": "open"},
    {"graphId": "open", "inputs": {}},
    {"graphId": "open", "status": "COMPLETED"},
    {"graphId": "open", "tag": ""},
    {"graphId": "open", "tag": "a.b"},
    {"graphId": "open", "tag": "x" * 65},
    {"graphId": "open", "tag": "two\n"},
]
WRONG_BODIES: list[tuple[str, Any]] = [
    ("start", {"attempt": 1}),
    ("start", []),
    ("cancel", {"reason": 7}),
    ("cancel", {"reason": "x" * 1001}),
    ("archive", {"force": True}),
    ("complete", {"output": {}}),
    ("fail", {"error": "text"}),
    ("fail", {"error": {"code": "E"}}),
    ("fail", {"error": {"code": "", "message": "m"}}),
    ("fail", {"error": {"code": "E", "message": "m", "traceback": "t"}}),
    ("fail", {"error": {"code": "x" * 129, "message": "m"}}),
    ("fail", {"error": {"code": "E", "message": "x" * 10_001}}),
    ("node start", {"attempt": 0}),
    ("node start", {"attempt": -1}),
    ("node start", {"attempt": 1.5}),
    ("node start", {"attempt": "1"}),
    ("node start", {"attempt": True}),
    ("node start", {"attempt": 2**31}),
    ("node start", {"workerId": ""}),
    ("node start", {"workerId": "a b"}),
    ("node start", {"workerId": "x" * 129}),
    ("node start", {"workerId": "two\n"}),
    ("node start", {"leaseSec": 0.5}),
    ("node start", {"leaseSec": 86_401}),
    ("node start", {"leaseSec": "60"}),
    ("node progress", {"message": 7}),
    ("node progress", {"message": "x" * 1001}),
    ("node progress", {"progres": 42}),
    ("node wait", {"waitKey": ""}),
    ("node wait", {"waitKey": "x" * 257}),
    ("node wait", {"waitKey": 123}),
    ("node wait", {"waitKey": "k", "timeoutSec": 0}),
    ("node wait", {"waitKey": "k", "timeoutSec": 1e12}),
    ("node wait", {"resumeKey": "k"}),
    ("node resume", {"resumeKey": None}),
    ("node resume", {"waitKey": "k"}),
    ("node success", {"outputs": {}}),
    ("node success", []),
    ("node fail", {"error": {}}),
    ("node fail", {"error": {"code": "E", "message": None}}),
]
WRONG_CLAIMS: list[Any] = [
    None,
    {},
    {"graphIds": ["open"]},
    {"workerId": WORKER},
    {"graphIds": [], "workerId": WORKER},
    {"graphIds": "open", "workerId": WORKER},
    {"graphIds": [""], "workerId": WORKER},
    {"graphIds": [7], "workerId": WORKER},
    {"graphIds": ["g"] * 51, "workerId": WORKER},
    {"graphIds": ["open"], "workerId": "a b"},
    {"graphIds": ["open"], "workerId": WORKER, "waitSec": -1},
    {"graphIds": ["open"], "workerId": WORKER, "waitSec": 31},
    {"graphIds": ["open"], "workerId": WORKER, "waitSec": "1"},
    {"graphIds": ["open"], "workerId": WORKER, "leaseSec": 0},
    {"graphIds": ["open"], "workerId": WORKER, "leaseSec": None},
    {"graphIds": ["open"], "workerId": WORKER, "lease": 1},
]


@pytest.fixture(scope="module")
def running(caller: Caller) -> str:
    """An execution with a running node; no test of this module changes it."""
    return caller.create("untouched", "start", "node start")


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON)
def test_json_that_cannot_be_stored_is_always_a_422(caller: Caller, running: str, body: bytes) -> None:
    before = caller.execution(running)

    for path in ("/executions", "/executions:claim", *(path_of(running, command) for command in BODIES)):
        response = caller.post(path, body)

        assert code_of(response) in {(422, "INVALID_REQUEST"), (413, "REQUEST_TOO_LARGE")}, path
        assert len(response.content) < 2000
    assert caller.execution(running) == before


@pytest.mark.parametrize("body", WRONG_CREATIONS, ids=repr)
def test_an_invalid_body_creates_nothing(caller: Caller, body: Any) -> None:
    assert code_of(caller.post("/executions", body)) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(("command", "body"), WRONG_BODIES, ids=lambda value: repr(value)[:60])
def test_an_invalid_body_is_no_command(caller: Caller, running: str, command: str, body: Any) -> None:
    before = caller.execution(running)

    response = caller.ask(running, command, body)

    assert code_of(response) == (422, "INVALID_REQUEST")
    assert caller.execution(running) == before


@pytest.mark.parametrize("body", WRONG_CLAIMS, ids=lambda value: repr(value)[:60])
def test_an_invalid_body_claims_nothing(caller: Caller, body: Any) -> None:
    assert code_of(caller.post("/executions:claim", body)) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize("node", ["x" * 129, "a%0Ab", "%00", "%E2%80%8B"])
def test_a_node_name_that_is_no_path_segment_is_rejected(caller: Caller, running: str, node: str) -> None:
    before = caller.execution(running)

    for command in BODIES:
        if command.startswith("node"):
            assert code_of(caller.ask(running, command, node=node)) == (422, "INVALID_REQUEST")
    assert caller.execution(running) == before


@pytest.mark.parametrize("node", ["a b", "日本", "a.b", "x" * 128, "'; --", "%25", "a%3Fb", "a%23b"])
def test_any_other_node_name_is_valid(caller: Caller, node: str) -> None:
    execution_id = caller.create("open", "start")

    caller.done(execution_id, "node start", "node success", node=node)

    (execution,) = caller.execution(execution_id)["nodes"]
    assert execution["status"] == "SUCCEEDED"


def test_a_value_above_the_limit_is_a_413_and_one_at_the_limit_is_stored(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")
    too_large = [
        caller.ask(execution_id, "node success", {"output": "x" * 64 * 1024}),
        caller.ask(execution_id, "node wait", {"waitKey": "k", "prompt": {"text": "é" * 8 * 1024}}),
        caller.post("/executions", {"graphId": "open", "input": {"text": "x" * 1_000_000}}),
        caller.post("/executions", b" " * 20_000_000),
    ]
    large_prompt = "x" * (16 * 1024 - 2)
    waits = caller.ask(execution_id, "node wait", {"waitKey": "k", "prompt": large_prompt})
    (wait,) = caller.http.get("/waits", params={"executionId": execution_id}).json()["items"]
    answered = caller.ask(execution_id, "node resume", {"resumeKey": "k", "answer": "x" * 64 * 1024})
    resumed = caller.ask(execution_id, "node resume", {"resumeKey": "k", "answer": 1})
    large_output = "x" * (64 * 1024 - 2)
    succeeded = caller.ask(execution_id, "node success", {"output": large_output})

    assert [code_of(response) for response in (*too_large, answered)] == [(413, "REQUEST_TOO_LARGE")] * 5
    assert [response.status_code for response in (waits, resumed, succeeded)] == [202] * 3
    assert wait["prompt"] == large_prompt
    (node,) = caller.execution(execution_id, include="records")["nodes"]
    assert node["output"] == large_output


def test_outputs_that_do_not_fit_into_a_snapshot_are_read_from_the_log(caller: Caller) -> None:
    execution_id = caller.create("open", "start")
    names = [f"n{number}" for number in range(12)]
    for name in names:
        caller.done(execution_id, "node start", node=name)
        caller.ask(execution_id, "node success", {"output": name + "x" * 60_000}, node=name).raise_for_status()

    whole = caller.execution(execution_id, include="records")

    assert caller.execution(execution_id)["nodesTruncated"] is True
    assert [node["status"] for node in caller.execution(execution_id)["nodes"]] == ["SUCCEEDED"] * 12
    assert [node["output"] for node in whole["nodes"]] == [name + "x" * 60_000 for name in names]


def test_a_body_with_too_many_values_is_rejected_before_parsing(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")

    response = caller.ask(execution_id, "node success", b'{"output": [' + b"0," * 60_000 + b"0]}")

    assert code_of(response) == (413, "REQUEST_TOO_LARGE")


WRONG_QUERIES = {
    "/executions": (
        ["limit=0", "limit=201", "limit=x", "status=RUNNING", "graphid=x", "limit=1&limit=2", "archived=maybe"]
    ),
    "/waits": ["limit=0", "limit=201", "graph=x", "cursor=!", "cursor=a~b~c", "executionId=a&executionId=b"],
    "/executions/{}": (
        ["at=0", "at=x", "at=1&at=2", "include=everything", "include=graph&include=records", f"at={10**20}"]
    ),
    "/executions/{}/events": (
        ["cursor=x", "cursor=1", "cursor=-1.0", "limit=0", "limit=1001", "cursor=1.0&cursor=2.0"]
    ),
}


@pytest.mark.parametrize("path", WRONG_QUERIES)
def test_an_invalid_query_is_a_422(caller: Caller, running: str, path: str) -> None:
    for query in WRONG_QUERIES[path]:
        assert code_of(caller.http.get(f"{path.format(running)}?{query}")) == (422, "INVALID_REQUEST"), query


def test_a_list_rejects_an_invalid_cursor(caller: Caller) -> None:
    assert code_of(caller.http.get("/executions?cursor=!")) == (422, "INVALID_LIST_QUERY")


def test_a_cross_site_request_is_no_command(caller: Caller, running: str) -> None:
    response = caller.post(path_of(running, "cancel"), headers={"Origin": "https://elsewhere.example"})

    assert code_of(response) == (403, "CROSS_SITE_REFUSED")
    assert caller.execution(running)["cancelRequestedAt"] is None


def test_errors_are_available_in_japanese(caller: Caller, running: str) -> None:
    response = caller.post(path_of(running, "node fail"), {"error": ERROR}, headers={"Accept-Language": "ja"})

    assert any(ord(letter) > 0x3000 for letter in response.json()["error"]["details"]["hint"])
