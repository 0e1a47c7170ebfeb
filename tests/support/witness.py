"""What was asked of executions and what was answered, by several at once; and whether their events bear that out."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.executions import NAMES, new_key, path_of

ENDS = {"EXECUTION_COMPLETED", "EXECUTION_FAILED", "EXECUTION_CANCELED"}
# What may still happen once a cancel is requested.
AFTER_A_CANCEL = {"NODE_CANCELED", "EXECUTION_CANCELED", "EXECUTION_ARCHIVED"}


@dataclass
class Asked:
    """One request, sent once or several times under its key."""

    path: str
    command: str
    body: Any
    execution_id: str = ""
    key: str = field(default_factory=new_key)
    answers: list[httpx.Response] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def to(cls, execution_id: str, command: str, body: Any, node: str) -> Asked:
        return cls(path_of(execution_id, command, node), NAMES[command], body, execution_id)

    @classmethod
    def for_work(cls, graph_id: str, worker_id: str) -> Asked:
        body = {"graphIds": [graph_id], "workerId": worker_id, "leaseSec": 600.0}
        return cls("/executions:claim", "StartNode", body)

    def send(self, http: httpx.Client) -> None:
        """Ask; an answer that does not come, or that says to come again, is none."""
        try:
            answer = http.post(self.path, json=self.body, headers={"Idempotency-Key": self.key})
        except httpx.TransportError:
            return
        assert answer.status_code != 500, answer.text
        if answer.status_code < 500 and answer.status_code != 204:
            with self._lock:
                self.answers.append(answer)
                self.execution_id = self.execution_id or answer.json().get("executionId", "")

    @property
    def is_accepted(self) -> bool:
        return bool(self.answers) and self.answers[0].status_code < 400

    def check_answers(self) -> None:
        """However often it was sent, it was answered in one way, and done by one of those who were asked."""
        assert self.answers, f"{self} was never answered"
        assert len({answer.content for answer in self.answers}) == 1, [answer.text for answer in self.answers]
        first_hand = [answer for answer in self.answers if "idempotency-replayed" not in answer.headers]
        assert len(first_hand) <= 1
        accepted = 200 if self.path.endswith(":claim") else 202
        for answer in self.answers:
            if self.is_accepted:
                assert answer.status_code == (accepted if answer in first_hand else 200), answer.text
            else:  # by a guard, or because there is no such node
                assert answer.status_code in (404, 409), answer.text


def check_commands(asked: list[Asked], events: list[dict[str, Any]]) -> None:
    """What was accepted is in the events once, and what was refused is not."""
    commits = {(event["idempotencyKey"], event["command"], event["commitId"]) for event in events}
    found = Counter((key, command) for key, command, _ in commits)
    assert max(found.values()) == 1, found
    for one in asked:
        times = found[one.key, one.command]
        assert times == 0 or one.is_accepted, f"{one.command} was refused and has happened"
        # Others may find that it is so already, and leave no event.
        if one.command in ("CreateExecution", "ReportNodeProgress") or one.path.endswith(":claim"):
            assert times == one.is_accepted


def check_events(events: list[dict[str, Any]], edges: list[list[str]]) -> None:
    """Cancel wins; every step happens once, after those before it; and the end is the end."""
    types = [event["type"] for event in events]
    if "EXECUTION_CANCEL_REQUESTED" in types:
        after = types[types.index("EXECUTION_CANCEL_REQUESTED") + 1 :]
        assert set(after) <= AFTER_A_CANCEL, types
        assert types.count("EXECUTION_CANCELED") == 1, types
    assert sum(types.count(end) for end in ENDS) == 1, types
    assert types[types.index(next(kind for kind in types if kind in ENDS)) + 1 :] in ([], ["EXECUTION_ARCHIVED"]), types
    _check_steps(events, edges)


def _check_steps(events: list[dict[str, Any]], edges: list[list[str]]) -> None:
    seen: dict[str, list[tuple[str, int]]] = {}
    for event in events:
        node = event["payload"].get("nodeId")
        if node is None:
            continue
        history = seen.setdefault(node, [])
        if event["type"] == "NODE_STARTED":
            assert event["payload"]["attempt"] == 1 + sum(kind == "NODE_STARTED" for kind, _ in history)
            for source in (source for source, target in edges if target == node):
                assert "NODE_SUCCEEDED" in [kind for kind, _ in seen[source]], (
                    f"{node} was begun before {source} was done"
                )
        history.append((event["type"], event["payload"].get("attempt", 0)))
    for history in seen.values():
        for once in ("NODE_CREATED", "NODE_READY", "NODE_CANCELED"):
            assert [kind for kind, _ in history].count(once) <= 1, history
        ended = [attempt for kind, attempt in history if kind in ("NODE_SUCCEEDED", "NODE_FAILED")]
        assert len(ended) == len(set(ended)), history
        assert not edges or len(ended) <= 1, history
