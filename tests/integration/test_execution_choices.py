"""Answers with choices and the edges that depend on them, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from support.executions import NEXT, NODE, SUCCEEDED, WAIT_KEY, Caller, code_of, new_key

ASK = {"question": "Ship it?", "choices": ["ship", "stop"]}
APPROVAL: dict[str, Any] = {
    "nodes": [{"id": NODE, "type": "wait", "waitKey": WAIT_KEY, "prompt": ASK}, NEXT, "report"],
    "edges": [{"from": NODE, "to": NEXT, "when": ["ship"]}, [NEXT, "report"]],
}


@pytest.fixture
def waiting(caller: Caller) -> str:
    """An execution whose first node waits for an answer that never comes."""
    caller.put("approval", APPROVAL)
    return caller.create("approval", "start")


def started(caller: Caller) -> str:
    caller.put("approval", APPROVAL)
    return caller.create("approval", "start")


def answer(caller: Caller, execution_id: str, value: Any, *, key: str | None = None) -> Any:
    return caller.ask(execution_id, "node resume", {"resumeKey": WAIT_KEY, "answer": value}, key=key)


@pytest.mark.parametrize("value", ["banana", {"choice": "banana"}, None, {"approved": True}, ["ship"]])
def test_an_answer_outside_the_choices_is_a_422_that_lists_them(caller: Caller, waiting: str, value: Any) -> None:
    response = answer(caller, waiting, value)

    error = response.json()["error"]
    assert code_of(response) == (422, "NOT_A_CHOICE")
    assert error["message"] == "ResumeNode rejected because the answer must be one of the choices: ship, stop"
    assert error["details"]["choices"] == ["ship", "stop"]
    assert (error["details"]["guard"], error["details"]["errId"]) == ("NOT_A_CHOICE", "ERR-PYOCO-0065")
    assert caller.node(waiting)["status"] == "WAITING"


def test_a_repeated_answer_is_rejected_as_before(caller: Caller, waiting: str) -> None:
    key = new_key()

    first, again = (answer(caller, waiting, "banana", key=key) for _ in range(2))

    assert (again.status_code, again.text) == (first.status_code, first.text)
    assert again.headers["Idempotency-Replayed"] == "true"


def test_a_choice_that_no_edge_lists_completes_the_execution_and_skips_the_rest(caller: Caller) -> None:
    execution_id = started(caller)

    assert answer(caller, execution_id, {"choice": "stop", "comment": "not on a friday"}).status_code == 202

    execution = caller.execution(execution_id)
    run = caller.http.get(f"/runs/{execution_id}", params={"include": "records"}).json()
    job = caller.http.get(f"/jobs/{execution_id}").json()
    assert execution["status"] == run["status"] == "COMPLETED"
    assert job["status"] == "completed"
    nodes = {node["nodeId"]: (node["status"], node.get("reason"), node.get("choice")) for node in execution["nodes"]}
    assert nodes == {
        NODE: ("SUCCEEDED", None, "stop"),
        NEXT: ("CANCELED", "skipped", None),
        "report": ("CANCELED", "skipped", None),
    }
    assert not any(node["canceledByExecution"] for node in execution["nodes"])
    assert run["tasks"] == {NODE: "SUCCEEDED", NEXT: "CANCELLED", "report": "CANCELLED"}
    assert run["task_records"][NEXT]["reason"] == "skipped"
    assert run["task_records"][NODE]["choice"] == "stop"
    assert caller.types(execution_id)[-5:] == [
        "NODE_RESUMED",
        "NODE_SUCCEEDED",
        "NODE_CANCELED",
        "NODE_CANCELED",
        "EXECUTION_COMPLETED",
    ]
    skipped = caller.events(execution_id)[-2]["payload"]
    assert skipped == {"nodeId": "report", "byExecution": False, "reason": "skipped"}


def test_a_choice_of_an_edge_makes_its_target_claimable(caller: Caller) -> None:
    execution_id = started(caller)

    answer(caller, execution_id, "ship").raise_for_status()
    claimed = caller.claim("approval", waitSec=20.0).json()

    assert (claimed["executionId"], claimed["nodeId"]) == (execution_id, NEXT)
    assert claimed["outputs"] == {NODE: "ship"}


def test_a_join_has_the_outputs_of_those_that_were_not_skipped(caller: Caller) -> None:
    join = [["report", "join"], [NEXT, "join"]]
    caller.put("join", APPROVAL | {"nodes": [*APPROVAL["nodes"], "join"], "edges": [APPROVAL["edges"][0], *join]})
    execution_id = caller.create("join", "start")

    answer(caller, execution_id, "stop").raise_for_status()
    caller.done(execution_id, *SUCCEEDED, node="report")
    claimed = caller.claim("join", waitSec=20.0).json()

    assert (claimed["nodeId"], claimed["outputs"]) == ("join", {"report": {}})


def test_the_prompt_of_a_holder_offers_choices_too(caller: Caller) -> None:
    caller.put("asks", {"nodes": [NODE, NEXT], "edges": [{"from": NODE, "to": NEXT, "when": ["ship"]}]})
    execution_id = caller.create("asks", "start", "node start")
    caller.ask(execution_id, "node wait", {"waitKey": WAIT_KEY, "prompt": ASK}).raise_for_status()

    wrong = answer(caller, execution_id, "banana")
    answer(caller, execution_id, "stop").raise_for_status()
    caller.done(execution_id, "node success")

    assert code_of(wrong) == (422, "NOT_A_CHOICE")
    execution = caller.execution(execution_id)
    assert (execution["status"], caller.node(execution_id, NEXT)["reason"]) == ("COMPLETED", "skipped")


def test_choices_that_cannot_be_answered_are_a_422(caller: Caller) -> None:
    execution_id = caller.create("open", "start", "node start")

    wait = caller.ask(execution_id, "node wait", {"waitKey": WAIT_KEY, "prompt": {"choices": [{}]}})
    wrong = caller.http.put("/graphs/wrong", json={"nodes": [APPROVAL["nodes"][0] | {"prompt": {"choices": []}}]})

    assert code_of(wait) == (422, "INVALID_REQUEST")
    assert code_of(wrong) == (422, "INVALID_GRAPH")
    assert caller.node(execution_id)["status"] == "RUNNING"


def test_edges_with_when_are_shown_as_they_were_put(caller: Caller, waiting: str) -> None:
    graph = caller.http.get("/graphs/approval").json()

    assert graph["edges"] == APPROVAL["edges"]
    assert caller.execution(waiting, include="graph")["graph"]["edges"] == APPROVAL["edges"]


def test_a_skipped_node_cannot_be_started_or_claimed(caller: Caller) -> None:
    graph = APPROVAL | {"nodes": [*APPROVAL["nodes"], "other"]}
    caller.put("skips", graph)
    execution_id = caller.create("skips", "start")
    answer(caller, execution_id, "stop").raise_for_status()

    start = caller.ask(execution_id, "node start", node=NEXT)
    claimed = caller.claim("skips", waitSec=20.0).json()
    empty = caller.claim("skips", waitSec=0.1)

    assert start.json()["error"]["details"]["guard"] == "NODE_FINISHED"
    assert (claimed["nodeId"], empty.status_code) == ("other", 204)


def test_the_explanation_names_what_was_skipped_and_answered(caller: Caller) -> None:
    execution_id = started(caller)
    answer(caller, execution_id, "stop").raise_for_status()

    reasons = caller.http.get(f"/runs/{execution_id}/explain").json()["reasons"]

    assert [reason["code"] for reason in reasons] == ["completed", "nodes_were_skipped"]
    assert "answers: build=stop" in reasons[1]["message"]
