"""Encoding of commits: lossless round trips, upcasting of older versions, errors for unreadable bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

from pyoco_server.domain.execution.codec import (
    SCHEMA_VERSION,
    UnreadableCommit,
    decode,
    encode,
    event_id,
    graph_from_wire,
    graph_to_wire,
    may_end,
)
from pyoco_server.domain.execution.events import EVENT_NAMES, Actor, Commit, ExecutionCreated, NodeSucceeded
from pyoco_server.domain.execution.graph import Graph
from pyoco_server.domain.execution.state import Request
from pyoco_server.domain.ids import CommitId, NodeId
from unit.domain.execution.strategies import RUN_ID, commits, graphs, thorough

COMMIT = Commit(
    commit_id=CommitId("c-1"),
    occurred_at=1_700_000_000.25,
    command="CreateExecution",
    actor=Actor(kind="user"),
    events=(ExecutionCreated(at=1_700_000_000.25, request=Request(flow_name="etl", tag="cpu")),),
)


def _envelope() -> dict[str, Any]:
    envelope: dict[str, Any] = orjson.loads(encode(RUN_ID, COMMIT))
    return envelope


@thorough
@given(commits)
def test_a_commit_survives_storage(commit: Commit) -> None:
    assert decode(encode(RUN_ID, commit)) == commit


@thorough
@given(graphs())
def test_a_graph_survives_storage(graph: Graph) -> None:
    assert graph_from_wire(orjson.loads(orjson.dumps(graph_to_wire(graph)))) == graph


@pytest.mark.parametrize(
    "output",
    [
        None,
        False,
        0,
        0.1,
        -(2**63),
        2**64 - 1,
        1e308,
        5e-324,
        "",
        "日本\U0001f600\x00",
        [[], {}],
        {"": {"a": [None, 1.5]}},
    ],
    ids=ascii,
)
def test_an_output_keeps_its_value_and_its_type(output: object) -> None:
    succeeded = NodeSucceeded(at=1.0, node_id=NodeId("報告"), attempt=1, output=output)
    stored = Commit(
        commit_id=CommitId("c"), occurred_at=1.0, command="", actor=Actor(kind="worker"), events=(succeeded,)
    )

    (back,) = decode(encode(RUN_ID, stored)).events

    assert back == succeeded
    assert isinstance(back, NodeSucceeded)
    assert type(back.output) is type(output)


def test_event_ids_consist_of_commit_id_and_position() -> None:
    assert _envelope() == {
        "schemaVersion": 1,
        "executionId": RUN_ID,
        "commitId": "c-1",
        "occurredAt": 1_700_000_000.25,
        "command": "CreateExecution",
        "actor": {"kind": "user", "id": None},
        "events": [
            {
                "eventId": event_id(COMMIT.commit_id, 0),
                "type": "EXECUTION_CREATED",
                "payload": {"at": 1_700_000_000.25, "request": {"flowName": "etl", "tag": "cpu", "input": {}}},
            }
        ],
    }
    assert event_id(COMMIT.commit_id, 0) == "c-1.0"


def test_fields_of_a_newer_program_are_ignored() -> None:
    envelope = _envelope() | {"region": "tokyo"}
    envelope["events"][0]["payload"]["priority"] = 5

    assert decode(orjson.dumps(envelope)) == COMMIT


def test_an_older_version_is_upcast_step_by_step() -> None:
    def name_the_actor(envelope: dict[str, Any]) -> dict[str, Any]:
        return envelope | {"actor": {"kind": envelope["who"]}}

    def name_the_command(envelope: dict[str, Any]) -> dict[str, Any]:
        return envelope | {"command": envelope["actor"]["kind"] + " asked"}

    old = {key: value for key, value in _envelope().items() if key not in ("actor", "command")}
    old |= {"schemaVersion": -1, "who": "robot"}

    lifted = decode(orjson.dumps(old), upcasters={-1: name_the_actor, 0: name_the_command})

    assert (lifted.actor, lifted.command) == (Actor(kind="robot"), "robot asked")
    assert lifted.events == COMMIT.events


def test_current_commits_can_be_upcast_by_a_later_version() -> None:
    def rename(envelope: dict[str, Any]) -> dict[str, Any]:
        return envelope | {"command": "Create"}

    tomorrow = decode(encode(RUN_ID, COMMIT), upcasters={SCHEMA_VERSION: rename}, newest=SCHEMA_VERSION + 1)

    assert tomorrow.command == "Create"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schemaVersion": 2}, "schemaVersion 2 is newer than this program"),
        ({"schemaVersion": 0}, "KeyError"),
        ({"schemaVersion": "1"}, "TypeError"),
        ({"actor": None}, "actor"),
        ({"commitId": 7}, "commitId"),
        ({"events": [{"type": "EXECUTION_PAUSED", "payload": {}}]}, "EXECUTION_PAUSED"),
        ({"events": [{"type": "EXECUTION_COMPLETED", "payload": {}}]}, "`at`"),
        ({"events": [{"type": "EXECUTION_COMPLETED", "payload": {"at": "now"}}]}, "at"),
        ({"events": [{"type": "EXECUTION_CANCELED", "payload": {"at": 1, "how": "magic"}}]}, "magic"),
        (
            {
                "events": [
                    {
                        "type": "EXECUTION_CREATED",
                        "payload": {"at": 1, "request": {}, "graph": {"nodes": [{"id": "a"}], "edges": [[0, 7]]}},
                    }
                ]
            },
            "IndexError",
        ),
    ],
    ids=[
        "a newer version",
        "a version without an upcaster",
        "a version that is no number",
        "no actor",
        "a commit id that is no text",
        "an unknown event",
        "an event without its time",
        "a time that is no number",
        "an unknown way to stop",
        "an edge to nowhere",
    ],
)
def test_an_invalid_envelope_is_reported_as_unreadable(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UnreadableCommit, match=says):
        decode(orjson.dumps(_envelope() | change))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"7", b"\xff"])
def test_bytes_that_are_no_commit_are_reported_as_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableCommit):
        decode(data)


@pytest.mark.parametrize("name", sorted(EVENT_NAMES))
def test_a_commit_with_a_terminal_event_is_always_detected(name: str) -> None:
    ends = name in ("EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELED")

    stored = (Path(__file__).parents[3] / "golden" / "events" / f"{name}.json").read_bytes()

    assert may_end(stored) == ends
