"""Every command of `/executions` in every reachable state, as defined by the contract and the state machine."""

from __future__ import annotations

from typing import Any

import pytest

from support.executions import BODIES, NAMES, NEXT, NODE, PAIR, SUCCEEDED, Caller, guard_of

HELD_CANCEL = ("start", "node start", "cancel")
WAITING = ("start", "node start", "node wait")

# The commands that lead to each state, by its name. Node commands are sent to the first node.
GRAPH: dict[str, tuple[str, ...]] = {
    "created": (),
    "ready": ("start",),
    "running": ("start", "node start"),
    "waiting": WAITING,
    "resumed": (*WAITING, "node resume"),
    "succeeded": ("start", *SUCCEEDED),
    "node failed": ("start", "node start", "node fail"),
    "failed": ("start", "fail"),
    "cancel requested": HELD_CANCEL,
    "canceled": ("start", "cancel"),
    "canceled early": ("cancel",),
    "completed": ("start", *SUCCEEDED, "then the next"),
    "archived": ("start", *SUCCEEDED, "then the next", "archive"),
}
OPEN: dict[str, tuple[str, ...]] = {
    "created": (),
    "started": ("start",),
    "running": ("start", "node start"),
    "waiting": WAITING,
    "succeeded": ("start", *SUCCEEDED),
    "node failed": ("start", "node start", "node fail"),
    "completed": ("start", *SUCCEEDED, "complete"),
    "failed": ("start", "node start", "fail"),
    "cancel requested": HELD_CANCEL,
    "canceled": (*WAITING, "cancel"),
    "archived": ("start", "complete", "archive"),
}
FLOW: dict[str, tuple[str, ...]] = {
    "created": (),
    "queued": ("start",),
    "canceled": ("start", "cancel"),
    "archived": ("start", "cancel", "archive"),
}

# `+`: 202 with an event. `=`: 202 without an event, because the state has it already. A word: 409 with that guard.
# `stops`: 409 because of the cancel, but the report confirms that the last holder has stopped.
COLUMNS = ("start", "cancel", "archive", "complete", "fail")
GRAPH_TABLE = {
    "created": "+ + NOT_FINISHED NOT_STARTED +",
    "ready": "= + NOT_FINISHED GRAPH_DECIDES +",
    "running": "= + NOT_FINISHED GRAPH_DECIDES +",
    "waiting": "= + NOT_FINISHED GRAPH_DECIDES +",
    "resumed": "= + NOT_FINISHED GRAPH_DECIDES +",
    "succeeded": "= + NOT_FINISHED GRAPH_DECIDES +",
    "node failed": "FINISHED FINISHED + FINISHED =",
    "failed": "FINISHED FINISHED + FINISHED =",
    "cancel requested": "CANCEL_REQUESTED = NOT_FINISHED CANCEL_REQUESTED CANCEL_REQUESTED",
    "canceled": "FINISHED = + FINISHED FINISHED",
    "canceled early": "FINISHED = + FINISHED FINISHED",
    "completed": "FINISHED FINISHED + = FINISHED",
    "archived": "FINISHED FINISHED = = FINISHED",
}
OPEN_TABLE = {
    "created": "+ + NOT_FINISHED NOT_STARTED +",
    "started": "= + NOT_FINISHED + +",
    "running": "= + NOT_FINISHED + +",
    "waiting": "= + NOT_FINISHED + +",
    "succeeded": "= + NOT_FINISHED + +",
    "node failed": "= + NOT_FINISHED + +",
    "completed": "FINISHED FINISHED + = FINISHED",
    "failed": "FINISHED FINISHED + FINISHED =",
    "cancel requested": "CANCEL_REQUESTED = NOT_FINISHED CANCEL_REQUESTED CANCEL_REQUESTED",
    "canceled": "FINISHED = + FINISHED FINISHED",
    "archived": "FINISHED FINISHED = = FINISHED",
}
FLOW_TABLE = {
    "created": "+ + NOT_FINISHED A_WORKER_RUNS_IT A_WORKER_RUNS_IT",
    "queued": "= + NOT_FINISHED A_WORKER_RUNS_IT A_WORKER_RUNS_IT",
    "canceled": "FINISHED = + FINISHED FINISHED",
    "archived": "FINISHED = = FINISHED FINISHED",
}

NODE_COLUMNS = ("node start", "node progress", "node wait", "node resume", "node success", "node fail")
_NOT_RUNNING = "NODE_NOT_RUNNING NODE_NOT_RUNNING NODE_NOT_WAITING NODE_NOT_RUNNING NODE_NOT_RUNNING"
_RUNNING = "= + + NODE_NOT_WAITING + +"
_UNKNOWN = "UNKNOWN_NODE UNKNOWN_NODE UNKNOWN_NODE UNKNOWN_NODE UNKNOWN_NODE"
_SUCCEEDED = "NODE_FINISHED NODE_NOT_RUNNING NODE_NOT_RUNNING NODE_NOT_WAITING = NODE_NOT_RUNNING"
_CANCEL_REQUESTED = " ".join(["CANCEL_REQUESTED"] * 4 + ["stops"] * 2)
_FINISHED = " ".join(["FINISHED"] * 6)
_FOR_A_WORKER = " ".join(["A_WORKER_RUNS_IT"] * 6)
GRAPH_NODES = {
    "created": f"NOT_STARTED {_NOT_RUNNING}",
    "ready": f"+ {_NOT_RUNNING}",
    "running": _RUNNING,
    # In a known graph a waiting node is not started again.
    "waiting": "NODE_NOT_RUNNING NODE_NOT_RUNNING = + NODE_NOT_RUNNING +",
    "resumed": _RUNNING,
    "succeeded": _SUCCEEDED,
    "node failed": _FINISHED,
    "failed": _FINISHED,
    "cancel requested": _CANCEL_REQUESTED,
    "canceled": _FINISHED,
    "canceled early": _FINISHED,
    "completed": _FINISHED,
    "archived": _FINISHED,
}
OPEN_NODES = {
    "created": f"NOT_STARTED {_UNKNOWN}",
    "started": f"+ {_UNKNOWN}",
    "running": _RUNNING,
    "waiting": "= NODE_NOT_RUNNING = + NODE_NOT_RUNNING +",
    "succeeded": _SUCCEEDED,
    "node failed": "NODE_FINISHED NODE_NOT_RUNNING NODE_NOT_RUNNING NODE_NOT_WAITING NODE_NOT_RUNNING =",
    "completed": _FINISHED,
    "failed": _FINISHED,
    "cancel requested": _CANCEL_REQUESTED,
    "canceled": _FINISHED,
    "archived": _FINISHED,
}
FLOW_NODES = {"created": _FOR_A_WORKER, "queued": _FOR_A_WORKER, "canceled": _FINISHED, "archived": _FINISHED}

KINDS: tuple[tuple[str, dict[str, tuple[str, ...]], dict[str, str], dict[str, str]], ...] = (
    ("graph", GRAPH, GRAPH_TABLE, GRAPH_NODES),
    ("open", OPEN, OPEN_TABLE, OPEN_NODES),
    ("flow", FLOW, FLOW_TABLE, FLOW_NODES),
)
CASES = [
    pytest.param(kind, history, command, expected, id=f"{kind} {state}: {command}")
    for kind, states, table, nodes in KINDS
    for state, history in states.items()
    for columns, row in ((COLUMNS, table[state]), (NODE_COLUMNS, nodes[state]))
    for command, expected in zip(columns, row.split(), strict=True)
]


@pytest.fixture(scope="module")
def graph_id(caller: Caller) -> str:
    caller.put("pair", PAIR)
    return "pair"


def in_state(caller: Caller, kind: str, history: tuple[str, ...], graph_id: str) -> str:
    """An execution of that kind after these commands."""
    body: dict[str, Any] = {"flow": {"tag": "nobodys"}}.get(kind, {})
    execution_id = caller.create(graph_id if kind == "graph" else f"some {kind}", **body)
    for command in history:
        if command == "then the next":
            caller.done(execution_id, *SUCCEEDED, node=NEXT)
        else:
            caller.done(execution_id, command)
    return execution_id


def test_the_table_covers_every_command_in_every_state() -> None:
    assert set(COLUMNS + NODE_COLUMNS) == set(BODIES)
    assert all(list(states) == list(table) == list(nodes) for _, states, table, nodes in KINDS)


@pytest.mark.parametrize(("kind", "history", "command", "expected"), CASES)
def test_every_command_in_every_state_has_its_result(
    caller: Caller, graph_id: str, kind: str, history: tuple[str, ...], command: str, expected: str
) -> None:
    execution_id = in_state(caller, kind, history, graph_id)
    before, status = caller.types(execution_id), caller.execution(execution_id)["status"]

    response = caller.ask(execution_id, command)

    counters = caller.types(execution_id)[len(before) :]
    if expected in "+=":
        assert response.status_code == 202, response.text
        assert bool(counters) == (expected == "+")
        return
    assert guard_of(response) == ("CANCEL_REQUESTED" if expected == "stops" else expected)
    error = response.json()["error"]
    assert error["message"].startswith(f"{NAMES[command]} rejected because ")
    assert (error["details"]["executionId"], error["details"]["status"]) == (execution_id, status)
    assert counters == (["NODE_CANCELED", "EXECUTION_CANCELED"] if expected == "stops" else [])


STATUSES = {
    ("graph", "created"): ("ACTIVE", "IDLE"),
    ("graph", "ready"): ("ACTIVE", "READY"),
    ("graph", "running"): ("ACTIVE", "RUNNING"),
    ("graph", "waiting"): ("ACTIVE", "WAITING"),
    ("graph", "resumed"): ("ACTIVE", "RUNNING"),
    ("graph", "succeeded"): ("ACTIVE", "SUCCEEDED"),
    ("graph", "node failed"): ("FAILED", "FAILED"),
    ("graph", "failed"): ("FAILED", "READY"),
    ("graph", "cancel requested"): ("ACTIVE", "RUNNING"),
    ("graph", "canceled"): ("CANCELED", "CANCELED"),
    ("graph", "canceled early"): ("CANCELED", "CANCELED"),
    ("graph", "completed"): ("COMPLETED", "SUCCEEDED"),
    ("graph", "archived"): ("COMPLETED", "SUCCEEDED"),
    ("open", "created"): ("ACTIVE", None),
    ("open", "started"): ("ACTIVE", None),
    ("open", "running"): ("ACTIVE", "RUNNING"),
    ("open", "waiting"): ("ACTIVE", "WAITING"),
    ("open", "succeeded"): ("ACTIVE", "SUCCEEDED"),
    ("open", "node failed"): ("ACTIVE", "FAILED"),
    ("open", "completed"): ("COMPLETED", "SUCCEEDED"),
    ("open", "failed"): ("FAILED", "FAILED"),
    ("open", "cancel requested"): ("ACTIVE", "RUNNING"),
    ("open", "canceled"): ("CANCELED", "CANCELED"),
    ("open", "archived"): ("COMPLETED", None),
    ("flow", "created"): ("ACTIVE", None),
    ("flow", "queued"): ("ACTIVE", None),
    ("flow", "canceled"): ("CANCELED", None),
    ("flow", "archived"): ("CANCELED", None),
}


@pytest.mark.parametrize(("kind", "state"), STATUSES)
def test_every_state_has_its_name_in_the_contract(caller: Caller, graph_id: str, kind: str, state: str) -> None:
    history = {"graph": GRAPH, "open": OPEN, "flow": FLOW}[kind][state]

    execution = caller.execution(in_state(caller, kind, history, graph_id))

    nodes = {node["nodeId"]: node for node in execution["nodes"]}
    expected, expected_node = STATUSES[kind, state]
    assert (execution["status"], nodes.get(NODE, {}).get("status")) == (expected, expected_node)
    assert (execution["cancelRequestedAt"] is not None) == ("cancel" in history)
    by_execution = {name for name, node in nodes.items() if node["canceledByExecution"]}
    assert by_execution == ({NODE, NEXT} & set(nodes) if expected == "CANCELED" else set())
    assert (execution["archivedAt"] is not None) == (state == "archived")


def test_a_failed_node_ends_the_other_nodes_of_its_graph(caller: Caller) -> None:
    caller.put("fork", {"nodes": [NODE, NEXT]})
    execution_id = caller.create("fork", "start", "node start")

    caller.done(execution_id, "node start", "node fail", node=NEXT)

    execution = caller.execution(execution_id)
    assert {node["nodeId"]: node["status"] for node in execution["nodes"]} == {NODE: "CANCELED", NEXT: "FAILED"}
    assert (execution["status"], execution["error"]["code"]) == ("FAILED", "ERR_TIMEOUT")
