"""Rejections of commands, and the guards that all commands share."""

from __future__ import annotations

from enum import Enum

import msgspec

from pyoco_server.domain.execution.events import Events
from pyoco_server.domain.execution.state import MAX_LABELS, MAX_NAMES_BYTES, MAX_NODES, Execution
from pyoco_server.domain.ids import InstanceId


class RejectionReason(Enum):
    """The guard that rejected a command."""

    NOT_FOUND = "there is no such execution"
    FINISHED = "the execution is finished"
    NOT_FINISHED = "the execution is not finished"
    NOT_STARTED = "the execution is not started"
    CANCEL_REQUESTED = "a cancel was requested"
    NO_CANCEL_REQUESTED = "no cancel was requested"
    HELD = "a worker may still be working on it"
    A_WORKER_RUNS_IT = "a worker runs all of it; it can only be cancelled"
    NOT_FOR_WORKERS = "its nodes are taken one by one; no worker runs all of it"
    FENCED = "another attempt has taken over"
    GRAPH_DECIDES = "the graph decides when it is complete"
    INVALID_GRAPH = "the graph cannot be run"
    UNKNOWN_NODE = "there is no such node in the graph"
    NODE_NOT_READY = "the node is not ready yet"
    NODE_NOT_RUNNING = "the node is not running"
    NODE_NOT_WAITING = "the node is not waiting"
    NODE_FINISHED = "the node is finished"
    NODE_HELD = "another worker holds the node"
    INVALID_ATTEMPT = "it is not the next attempt of the node"
    NO_MORE_ATTEMPTS = "the node has no attempts left"
    WRONG_RESUME_KEY = "the resume key does not fit"
    NOT_A_CHOICE = "the answer is not one of the choices"
    INVALID_VALUE = "a value is out of range"
    TOO_MANY_NODES = f"an execution has at most {MAX_NODES} nodes"
    NAMES_TOO_LONG = (
        f"node ids, wait keys and choices that a graph does not name have at most {MAX_NAMES_BYTES} bytes together"
    )
    TOO_MANY_TAGS = f"an execution has at most {MAX_LABELS} tags"


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """The command is not allowed in the current state; `detail` describes that state.

    `choices` are the answers that are allowed.
    """

    why: RejectionReason
    detail: str
    choices: tuple[str, ...] = ()


Verdict = Events | Rejection


def reject(why: RejectionReason, detail: str | None = None) -> Rejection:
    """A rejection; its detail is the text of the reason unless given."""
    return Rejection(why=why, detail=detail or why.value)


def no_progress(execution: Execution, command: object) -> Rejection | None:
    """Reject progress once the execution is finished or a cancel is requested."""
    if execution.status.is_terminal:
        return finished(execution)
    if execution.cancel is not None:
        name = type(command).__name__
        return reject(RejectionReason.CANCEL_REQUESTED, f"{name} rejected because execution is cancel-requested")
    return None


def not_current(execution: Execution, attempt: int | None, instance_id: InstanceId | None) -> Rejection | None:
    """The fence: a worker that was overtaken must not write."""
    if attempt is not None and attempt != execution.attempt:
        return fenced(execution, attempt)
    if instance_id is not None and (execution.holder is None or execution.holder.instance_id != instance_id):
        return fenced(execution, execution.attempt if attempt is None else attempt)
    return None


def finished(execution: Execution) -> Rejection:
    """A finished execution accepts only archiving and labels."""
    return reject(RejectionReason.FINISHED, f"the execution is {execution.status.value}")


def fenced(execution: Execution, attempt: int) -> Rejection:
    if attempt == execution.attempt:
        return reject(RejectionReason.FENCED, f"attempt {attempt} belongs to another worker instance")
    return reject(RejectionReason.FENCED, f"attempt {attempt} is not the current one ({execution.attempt})")
