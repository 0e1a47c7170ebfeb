"""Random commands, events and graphs, and the executions that commands lead to. It generates; it asserts nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.execution.commands import (
    AttemptStep,
    Command,
    CompleteExecution,
    ConfirmCanceled,
    CreateExecution,
    PutNodeWaiting,
    RecordAttempt,
    ResumeNode,
    StartExecution,
    StartNode,
    SucceedNode,
)
from pyoco_server.domain.execution.decide import Rejection, Verdict, decide
from pyoco_server.domain.execution.events import EVENT_NAMES, Actor, Commit, Event
from pyoco_server.domain.execution.evolve import fold
from pyoco_server.domain.execution.graph import Graph, GraphNode
from pyoco_server.domain.execution.state import (
    SKIPPED,
    Execution,
    Failure,
    NodeStatus,
    Request,
    StopHow,
    TimeoutReceipt,
    WheelUsed,
    Work,
    empty_execution,
)
from pyoco_server.domain.ids import CommitId, InstanceId, NodeId, RunId, WorkerId
from support.effort import effort

RUN_ID = RunId("0190b8a0-7c00-7000-8000-000000000001")
# Few names, so that commands refer to the same nodes: with many names nearly all would be refused.
CHOICES = ("ship", "stop")
ASK = {"question": "出荷しますか?", "choices": list(CHOICES)}
NODE_IDS = tuple(NodeId(name) for name in ("extract", "clean", "approve", "報告"))

# The machine may be busy: time says nothing about a pure function.
thorough = settings(max_examples=effort(50, 2_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])

moments = st.integers(0, 4_000).map(lambda quarters: 1_700_000_000 + quarters / 4)
texts = st.text(max_size=12)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
node_ids = st.sampled_from(NODE_IDS)
instances = st.sampled_from([InstanceId("i-1"), InstanceId("i-2")])
attempts = st.integers(1, 3)
labels = st.sampled_from(["nightly", "東京", "x"])
keys = st.sampled_from(["approval-1", "approval-2"])
failures = st.builds(Failure, code=texts, message=texts, traceback=st.none() | texts)
requests = st.builds(
    Request,
    flow_name=texts,
    tag=texts,
    input=st.dictionaries(texts, json_values, max_size=3),
    tenant_id=st.none() | texts,
    api_key_id=st.none() | texts,
    timeout_sec=st.none() | finite,
    workflow_yaml_sha256=st.none() | texts,
    workflow_yaml_bytes=st.none() | st.integers(0, 2**40),
    replay_of=st.none() | st.just(RUN_ID),
    rerun_of=st.none() | st.just(RUN_ID),
    work=st.sampled_from(Work),
    graph_version=st.none() | st.integers(1, 9),
)


@st.composite
def graphs(draw: st.DrawFn, prompts: st.SearchStrategy[Any] = json_values) -> Graph:
    """A graph that can be run: edges lead from earlier to later nodes of a random order."""
    names = draw(st.permutations(NODE_IDS))[: draw(st.integers(1, len(NODE_IDS)))]
    pairs = [(source, target) for place, source in enumerate(names) for target in names[place + 1 :]]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=6, unique=True)) if pairs else []
    waits = st.none() | st.none() | keys
    when = {
        edge: draw(st.sampled_from([("ship",), ("stop",), CHOICES])) for edge in edges if not draw(st.integers(0, 2))
    }
    asking = {source for source, _ in when}
    nodes = [
        GraphNode(
            node_id=name,
            wait_key=draw(waits),
            prompt=ASK if name in asking else draw(prompts),
            timeout_sec=draw(st.sampled_from([None, None, 2.5])),
            max_attempts=draw(st.sampled_from([None, 1, 2])),
            params=draw(st.sampled_from([None, {"rows": 3}])),
        )
        for name in names
    ]
    return Graph(nodes=tuple(draw(st.permutations(nodes))), edges=tuple(edges), when=when)


# Values of a field by its name, in every command and event.
_CONTENTS: dict[str, st.SearchStrategy[Any]] = {
    "at": moments,
    "from_outside": st.booleans(),
    "request": requests,
    "labels": st.lists(labels, max_size=3, unique=True).map(tuple),
    "graph": st.none() | graphs(),
    "workflow_yaml": st.none() | texts,
    "node_inputs": st.none() | st.binary(max_size=64),
    "attempt": attempts,
    "worker_id": st.none() | st.sampled_from([WorkerId("w-1"), WorkerId("w-2")]),
    "instance_id": st.none() | instances,
    "return_to": st.sampled_from([None, "$JS.ACK.s.c.1.1.1.1.0"]),
    "code_version": st.none() | texts,
    "wheels": st.lists(st.builds(WheelUsed, name=texts, sha256=texts), max_size=2).map(tuple),
    "reason": st.none() | st.just(SKIPPED) | texts,
    "requested_by": st.none() | texts,
    "how": st.sampled_from(StopHow),
    "delivered_at": st.none() | moments,
    "stopped_at": st.none() | moments,
    "error": failures,
    "timeout": st.none()
    | st.builds(
        TimeoutReceipt,
        limit_sec=st.floats(0.001, 1e6),
        reached_at=moments,
        stopped_at=moments,
        how=st.sampled_from(StopHow),
    ),
    "last_lines": st.lists(texts, max_size=2).map(tuple),
    "tag": labels,
    "node_id": node_ids,
    "node_ids": st.lists(node_ids, max_size=3).map(tuple),
    "before": st.lists(node_ids, max_size=3).map(tuple),
    "edges": st.lists(st.tuples(node_ids, node_ids), max_size=3).map(tuple),
    "result_nodes": st.lists(node_ids, max_size=3).map(tuple),
    "lease_until": st.none() | moments,
    "progress": st.none() | st.integers(0, 100) | st.floats(0, 100),
    "message": st.none() | texts,
    "wait_key": keys,
    "resume_key": keys,
    "prompt": json_values,
    "deadline_at": st.none() | moments,
    "output": json_values,
    "answer": json_values,
    "choice": st.none() | texts,
    "by_execution": st.booleans(),
}
_SMALL = st.sampled_from([None, 0, "ok", {"rows": [1, None]}])
# Few values where no rule depends on them: drawing values takes most of the time.
_PLAIN = _CONTENTS | {
    "request": st.sampled_from(
        [
            Request(flow_name="etl", tag="cpu", input={"day": "月曜"}),
            Request(),
            Request(flow_name="etl", tag="cpu", work=Work.ON_START),
            Request(flow_name="release", work=Work.NODES, graph_version=2),
        ]
    ),
    "error": st.just(Failure(code="E_READ", message="no such file", traceback="Traceback …")),
    "timeout": st.sampled_from(
        [None, TimeoutReceipt(limit_sec=5.0, reached_at=6.0, stopped_at=6.5, how=StopHow.COOPERATIVE)]
    ),
    "last_lines": st.sampled_from([(), ("loading", "saving")]),
    "output": _SMALL,
    "answer": _SMALL | st.sampled_from(["ship", {"choice": "stop"}, "banana"]),
    "choice": st.sampled_from([None, *CHOICES]),
    "prompt": _SMALL | st.sampled_from([ASK, {"choices": []}]),
    "message": st.sampled_from([None, "halfway"]),
    "reason": st.sampled_from([None, "wrong input", SKIPPED]),
    "requested_by": st.sampled_from([None, "alice"]),
    "code_version": st.sampled_from([None, "3f2a91c07d4e"]),
    "wheels": st.sampled_from([(), (WheelUsed(name="tools-1.0-py3-none-any.whl", sha256="00ff"),)]),
    "workflow_yaml": st.sampled_from([None, "flow: {}"]),
    "node_inputs": st.sampled_from([None, b"packed"]),
    "graph": st.none() | graphs(_SMALL | st.just(ASK)),
}
# A client may omit the attempt or send a wrong one.
_ASKED = _PLAIN | {
    "attempt": st.none() | st.none() | st.integers(0, 3),
    "progress": st.sampled_from([None, 0, 12.5, 100, 101, -1, float("nan")]),
}
_steps: st.SearchStrategy[AttemptStep] = st.one_of(
    *(st.builds(kind, **{name: _ASKED[name] for name in kind.__struct_fields__}) for kind in get_args(AttemptStep))
)
_REPORTED = _ASKED | {
    "attempt": attempts,
    "instance_id": instances,
    "steps": st.lists(_steps, max_size=6).map(tuple),
}


def _commands_of(kind: type[Command]) -> st.SearchStrategy[Command]:
    contents = _REPORTED if kind is RecordAttempt else _ASKED
    return st.builds(kind, **{name: contents[name] for name in kind.__struct_fields__})


def _events_of(contents: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Event]:
    kinds = EVENT_NAMES.values()
    return st.one_of(*(st.builds(kind, **{name: contents[name] for name in kind.__struct_fields__}) for kind in kinds))


COMMAND_KINDS: tuple[type[Command], ...] = get_args(Command)
creates: st.SearchStrategy[Command] = _commands_of(CreateExecution)
commands: st.SearchStrategy[Command] = st.one_of(*map(_commands_of, COMMAND_KINDS))
events: st.SearchStrategy[Event] = _events_of(_CONTENTS)
plain_events: st.SearchStrategy[Event] = _events_of(_PLAIN)
commits: st.SearchStrategy[Commit] = st.builds(
    Commit,
    commit_id=texts.map(CommitId),
    occurred_at=moments,
    command=texts,
    actor=st.builds(Actor, kind=texts, id=st.none() | texts),
    events=st.lists(events, max_size=5).map(tuple),
    correlation_id=st.none() | texts,
    idempotency_key=st.none() | texts,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One command of a script, with the execution before it, its result, and the execution after it."""

    before: Execution
    command: Command
    verdict: Verdict
    after: Execution


def play(script: Iterable[Command], execution: Execution | None = None) -> list[Played]:
    """Decide and fold, command by command; a rejected or repeated command leaves the execution unchanged."""
    now = execution or empty_execution(RUN_ID)
    played = []
    for command in script:
        before, verdict = now, decide(now, command)
        if verdict and not isinstance(verdict, Rejection):
            now = replace(fold(verdict, now), version=now.version + 1)
        played.append(Played(before=before, command=command, verdict=verdict, after=now))
    return played


def after(*script: Command) -> Execution:
    """The execution that these commands lead to; each must be accepted."""
    played = play(script)
    for step in played:
        assert not isinstance(step.verdict, Rejection), f"{step.command} was refused: {step.verdict}"
    return played[-1].after if played else empty_execution(RUN_ID)


def advancing(execution: Execution) -> list[Command]:
    """Commands that advance this execution; random ones alone would seldom finish a graph."""
    at = execution.updated_at + 1
    if not execution.exists or execution.status.is_terminal:
        return []
    if execution.holder is None:
        return [
            StartExecution(at=at, from_outside=True),
            StartExecution(at=at),
            StartExecution(at=at, attempt=1, worker_id=WorkerId("w-1"), instance_id=InstanceId("i-1")),
        ]
    if execution.cancel is not None:
        holder = execution.holder
        return [
            ConfirmCanceled(at=at, how=StopHow.KILLED),
            CompleteExecution(at=at, attempt=holder.attempt, instance_id=holder.instance_id),
        ]
    steps = [step for node_id in NODE_IDS for step in _next_steps(execution, node_id, at)]
    instance_id = execution.holder.instance_id
    if instance_id is None:
        return [*steps]
    reported = tuple(step for step in steps if isinstance(step, StartNode | SucceedNode))
    return [*steps, RecordAttempt(at=at, attempt=execution.attempt, instance_id=instance_id, steps=reported)]


def _next_steps(
    execution: Execution, node_id: NodeId, at: float
) -> list[StartNode | SucceedNode | PutNodeWaiting | ResumeNode]:
    node = execution.nodes.get(node_id)
    drawn = execution.graph is not None
    if (node is None and not drawn) or (node is not None and node.status is NodeStatus.READY):
        return [StartNode(at=at, node_id=node_id, worker_id=WorkerId("w-1"))]
    if node is not None and node.status is NodeStatus.RUNNING:
        ask = PutNodeWaiting(at=at, node_id=node_id, wait_key="approval-1", prompt=ASK)
        done = SucceedNode(at=at, node_id=node_id, output={"rows": 3})
        return [done, ask] if drawn and node.choice is None else [done]
    if node is not None and node.status is NodeStatus.WAITING:
        answers = node.choices or (None,)
        return [ResumeNode(at=at, node_id=node_id, resume_key=node.wait_key or "", answer=answer) for answer in answers]
    return []


@st.composite
def scripts(draw: st.DrawFn) -> list[Command]:
    """A creation, then a mix of commands that advance the execution and arbitrary ones."""
    script: list[Command] = [draw(creates)]
    now = play(script)[-1].after
    for _ in range(draw(st.integers(0, 24))):
        options = advancing(now) if draw(st.integers(0, 3)) else []
        script.append(draw(st.sampled_from(options) if options else commands))
        now = play(script[-1:], now)[-1].after
    return script


# Every execution that some script leads to.
executions: st.SearchStrategy[Execution] = scripts().map(lambda script: play(script)[-1].after)
