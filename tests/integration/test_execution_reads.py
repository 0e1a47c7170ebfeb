"""Reads of executions: at any version, their events in pages and as a stream, lists, and the other APIs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import pytest

from support.executions import NEXT, NODE, PAIR, SUCCEEDED, Caller, code_of


@pytest.fixture
def finished(caller: Caller) -> str:
    """A graph execution that is complete and archived."""
    caller.put("pair", PAIR)
    execution_id = caller.create(
        "pair", "start", "node start", "node progress", "node wait", "node resume", "node success"
    )
    caller.done(execution_id, *SUCCEEDED, node=NEXT)
    caller.done(execution_id, "archive")
    return execution_id


TYPES = [
    "EXECUTION_CREATED",
    "NODE_CREATED",
    "NODE_CREATED",
    "EXECUTION_STARTED",
    "NODE_READY",
    "NODE_STARTED",
    "NODE_PROGRESS_REPORTED",
    "NODE_WAITING",
    "NODE_RESUMED",
    "NODE_SUCCEEDED",
    "NODE_READY",
    "NODE_STARTED",
    "NODE_SUCCEEDED",
    "EXECUTION_COMPLETED",
    "EXECUTION_ARCHIVED",
]


def plain(execution: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that no event sets."""
    return {name: value for name, value in execution.items() if name not in ("updatedAt", "nodesTruncated")}


def test_an_execution_is_readable_as_of_every_version(caller: Caller) -> None:
    caller.put("pair", PAIR)
    execution_id = caller.create("pair")
    then = [caller.execution(execution_id)]
    for node in (NODE, NEXT):
        for command in ("start", "node start", "node progress", "node wait", "node resume", "node success"):
            caller.done(execution_id, command, node=node)
            then.append(caller.execution(execution_id))
        caller.create("in between")
    caller.done(execution_id, "archive")
    then.append(caller.execution(execution_id))
    versions = {event["version"] for event in caller.events(execution_id)}

    assert {execution["version"] for execution in then} == versions
    for execution in then:
        assert plain(caller.execution(execution_id, at=execution["version"])) == plain(execution)
    for earlier, later in pairwise(then):
        if earlier["version"] < later["version"]:
            between = caller.execution(execution_id, at=later["version"] - 1)
            assert plain(between) == plain(earlier)
    assert plain(caller.execution(execution_id, at=2**53)) == plain(then[-1])
    before = caller.http.get(f"/executions/{execution_id}", params={"at": min(versions) - 1 or 1})
    assert min(versions) == 1 or code_of(before) == (422, "INVALID_REQUEST")


def test_a_response_has_the_version_of_its_command(caller: Caller) -> None:
    execution_id = caller.create("open", "start")

    version = caller.ask(execution_id, "node start").json()["version"]
    caller.done(execution_id, "node success")

    assert caller.execution(execution_id, at=version)["nodes"][0]["status"] == "RUNNING"
    assert caller.execution(execution_id, at=version - 1)["nodes"] == []


def test_events_contain_actor_action_and_time(caller: Caller, finished: str) -> None:
    events = caller.events(finished)

    assert [event["type"] for event in events] == TYPES
    assert len({event["eventId"] for event in events}) == len(events)
    assert [event["version"] for event in events] == sorted(event["version"] for event in events)
    for event in events:
        assert event["occurredAt"].endswith("Z")
        assert event["actor"]["kind"] == "user"
        assert event["correlationId"]
        assert event["idempotencyKey"].startswith("key-")
    started = next(event for event in events if event["type"] == "NODE_STARTED")
    assert (started["command"], started["payload"]["nodeId"], started["payload"]["attempt"]) == ("StartNode", NODE, 1)
    last = events[TYPES.index("EXECUTION_COMPLETED")]
    assert (last["command"], last["commitId"]) == (
        "SucceedNode",
        events[TYPES.index("EXECUTION_COMPLETED") - 1]["commitId"],
    )


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 14, 15, 16])
def test_event_pages_of_any_size_add_up_to_the_list(caller: Caller, finished: str, limit: int) -> None:
    pages: list[list[dict[str, Any]]] = []
    cursor: str | None = None
    while cursor is not None or not pages:
        query: dict[str, Any] = {"limit": limit} if cursor is None else {"limit": limit, "cursor": cursor}
        page = caller.http.get(f"/executions/{finished}/events", params=query).json()
        assert page["executionId"] == finished
        pages.append(page["items"])
        cursor = page["nextCursor"]

    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert [event for page in pages for event in page] == caller.events(finished)


def test_a_stream_sends_every_event_and_ends_with_the_execution(caller: Caller) -> None:
    execution_id = caller.create("open")
    with caller.following(execution_id) as events:
        received = [next(events)]
        for command, happens in (
            ("start", "EXECUTION_STARTED"),
            ("node start", "NODE_STARTED"),
            ("node success", "NODE_SUCCEEDED"),
            ("complete", "EXECUTION_COMPLETED"),
        ):
            caller.done(execution_id, command)
            while received[-1]["type"] != happens:
                received.append(next(events))
        rest = list(events)

    ids = [event.pop("id") for event in received]
    assert (received, rest) == (caller.events(execution_id), [])
    assert len(set(ids)) == len(ids)


def test_a_stream_cut_within_a_commit_resumes_at_the_next_event(caller: Caller, finished: str) -> None:
    with caller.following(finished) as events:
        received = list(events)
    assert [event["type"] for event in received] == TYPES

    for place, event in enumerate(received[:-1]):
        with caller.following(finished, last_event_id=event["id"]) as events:
            assert list(events) == received[place + 1 :]
    pages = caller.http.get(f"/executions/{finished}/events", params={"cursor": received[1]["id"]}).json()["items"]
    assert [event["type"] for event in pages] == TYPES[2:]


def test_a_stream_resumed_after_the_end_is_a_204(caller: Caller, finished: str) -> None:
    with caller.following(finished) as events:
        last = list(events)[-1]["id"]

    headers = {"Accept": "text/event-stream", "Last-Event-ID": last}
    assert caller.http.get(f"/executions/{finished}/events", headers=headers).status_code == 204


def test_a_stream_ends_with_a_cancelled_execution(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")
    following, received = threading.Event(), []

    def follow(events: Iterator[dict[str, Any]]) -> None:
        for event in events:
            received.append(event["type"])
            if event["type"] == "NODE_STARTED":
                following.set()

    with caller.following(execution_id) as events:
        reader = threading.Thread(target=follow, args=(events,))
        reader.start()
        assert following.wait(20)
        caller.done(execution_id, "cancel")
        caller.ask(execution_id, "node fail")
        reader.join(20)
        assert not reader.is_alive()

    assert received[-3:] == ["EXECUTION_CANCEL_REQUESTED", "NODE_CANCELED", "EXECUTION_CANCELED"]


def test_an_execution_includes_its_graph_on_request(caller: Caller) -> None:
    caller.put("pair", PAIR)
    execution_id = caller.create("pair")

    execution = caller.execution(execution_id, include="graph")

    assert [node["id"] for node in execution["graph"]["nodes"]] == [NODE, NEXT]
    assert execution["graph"]["edges"] == PAIR["edges"]
    assert "graph" not in caller.execution(execution_id)


def test_events_of_a_node_are_paged_from_the_newest(caller: Caller, finished: str) -> None:
    types: list[str] = []
    query: dict[str, Any] = {"order": "desc", "nodeId": NODE, "limit": 2}
    while True:
        page = caller.http.get(f"/executions/{finished}/events", params=query).json()
        types += [event["type"] for event in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]

    assert types == [
        "NODE_SUCCEEDED",
        "NODE_RESUMED",
        "NODE_WAITING",
        "NODE_PROGRESS_REPORTED",
        "NODE_STARTED",
        "NODE_READY",
        "NODE_CREATED",
    ]
    newest = caller.http.get(f"/executions/{finished}/events", params={"order": "desc", "limit": 1}).json()["items"]
    assert [event["type"] for event in newest] == TYPES[-1:]


# --- lists ------------------------------------------------------------------------------------------------------------


def test_executions_are_paged_by_status_and_graph_without_archived_ones(caller: Caller) -> None:
    active = [caller.create("listed") for _ in range(3)]
    canceled = [caller.create("listed", "cancel") for _ in range(2)]
    archived = [caller.create("listed", "cancel", "archive")]

    def listed(**query: Any) -> list[str]:
        page = caller.http.get("/executions", params={"graphId": "listed", **query}).json()
        assert page["nextCursor"] is None
        return [item["executionId"] for item in page["items"]]

    assert sorted(listed()) == sorted(active + canceled)
    assert sorted(listed(status="ACTIVE")) == sorted(active)
    assert sorted(listed(status="CANCELED")) == sorted(canceled)
    assert (listed(status="COMPLETED"), listed(archived=True)) == ([], archived)
    found, cursor = [], ""
    while cursor is not None:
        query: dict[str, Any] = {"graphId": "listed", "limit": 2, "cursor": cursor}
        page = caller.http.get("/executions", params=query).json()
        found += [item["executionId"] for item in page["items"]]
        cursor = page["nextCursor"]
    assert sorted(found) == sorted(active + canceled)
    assert caller.execution(archived[0])["status"] == "CANCELED"


def test_a_cursor_of_the_runs_is_no_cursor_of_the_executions(caller: Caller) -> None:
    for _ in range(2):
        caller.create("listed by both", "start")
    cursor = caller.http.get("/runs", params={"flow": "listed by both", "limit": 1, "cursor": ""}).json()["next_cursor"]

    refused = caller.http.get("/executions", params={"graphId": "listed by both", "cursor": cursor})

    assert refused.status_code == 422, refused.text
    assert refused.json()["error"]["details"]["errId"] == "ERR-PYOCO-0017"


def test_a_listed_execution_equals_the_execution(caller: Caller) -> None:
    execution_id = caller.create("listed alone", "start", "node start", "cancel")

    (item,) = caller.http.get("/executions", params={"graphId": "listed alone"}).json()["items"]

    execution = caller.execution(execution_id)
    assert {name: item[name] for name in item if name != "error"} == {
        name: execution[name] for name in item if name != "error"
    }


# --- other APIs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("commands", "status", "task"),
    [
        ((), "PENDING", "PENDING"),
        (("start",), "RUNNING", "PENDING"),
        (("start", "node start"), "RUNNING", "RUNNING"),
        (("start", "node start", "node wait"), "RUNNING", "RUNNING"),
        (("start", *SUCCEEDED), "RUNNING", "SUCCEEDED"),
        (("start", "node start", "node fail"), "FAILED", "FAILED"),
        (("start", "node start", "cancel"), "CANCELLING", "RUNNING"),
        (("start", "cancel"), "CANCELLED", "CANCELLED"),
    ],
)
def test_an_execution_is_readable_as_a_run(caller: Caller, commands: tuple[str, ...], status: str, task: str) -> None:
    caller.put("pair", PAIR)
    execution_id = caller.create("pair", *commands, input={"n": 1})

    run = caller.http.get(f"/runs/{execution_id}").json()
    tasks = caller.http.get(f"/runs/{execution_id}/tasks")

    assert (run["run_id"], run["flow_name"], run["params"], run["status"]) == (execution_id, "pair", {"n": 1}, status)
    assert (run["tasks"][NODE], tasks.status_code) == (task, 200)
    assert caller.http.get(f"/runs/{execution_id}/explain").status_code == 200


def test_a_run_is_readable_as_an_execution(caller: Caller) -> None:
    run_id = caller.http.post("/runs", json={"flow_name": "hello", "params": {"n": 1}, "tag": "nobodys"}).json()[
        "run_id"
    ]

    execution = caller.execution(run_id)
    refused = [caller.ask(run_id, command) for command in ("complete", "fail", "node start", "node success")]
    started = caller.ask(run_id, "start")
    canceled = caller.ask(run_id, "cancel")

    assert (execution["executionId"], execution["graphId"], execution["input"]) == (run_id, "hello", {"n": 1})
    assert (execution["status"], execution["nodes"]) == ("ACTIVE", [])
    assert {code_of(response) for response in refused} == {(409, "COMMAND_REJECTED")}
    assert (started.status_code, canceled.status_code) == (202, 202)
    assert caller.http.get(f"/runs/{run_id}").json()["status"] == "CANCELLED"
    assert caller.types(run_id) == ["EXECUTION_CREATED", "EXECUTION_CANCEL_REQUESTED", "EXECUTION_CANCELED"]


def test_an_execution_is_cancelled_as_a_run(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")

    response: httpx.Response = caller.http.post(f"/runs/{execution_id}/cancel", json={"reason": "wrong input"})

    assert (response.status_code, response.json()["status"]) == (200, "CANCELLING")
    assert caller.execution(execution_id)["cancel"]["reason"] == "wrong input"
