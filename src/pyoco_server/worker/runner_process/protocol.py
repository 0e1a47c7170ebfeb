"""The protocol between a runner process and its supervisor: JSON frames and the messages in them. No I/O.

A frame is a length (4 bytes, big-endian) and that many bytes of JSON. User code shares its process with one end of the
socket, so arbitrary bytes may arrive: invalid frames are an error at once, never a wait for bytes that do not come.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import orjson

from pyoco_server.domain.fleet.flows import FlowAnnouncement, bounded, flows_from_plain, flows_to_plain
from pyoco_server.trace import Step, TaskFailed, TaskProgressed, TasksDeclared, TaskStarted, TaskSucceeded

FRAME_CAP_BYTES = 8 * 1024 * 1024
# sysexits.h: EX_IOERR. The exit code of a runner that lost its connection to the supervisor.
EXIT_CUT_OFF = 74

EndKind = Literal["completed", "failed", "cancelled", "flow_not_found"]

_LENGTH = struct.Struct(">I")


class CorruptFrame(ValueError):
    """the bytes received are not a frame"""


class FrameTooLarge(ValueError):
    """the message does not fit into a frame"""


def encode(message: object) -> bytes:
    """Encodes the message, dataclasses as objects, as one frame; `FrameTooLarge` above the cap."""
    body = orjson.dumps(message)
    if len(body) > FRAME_CAP_BYTES:
        raise FrameTooLarge(f"a message of {len(body)} bytes is larger than the cap of {FRAME_CAP_BYTES}")
    return _LENGTH.pack(len(body)) + body


class Decoder:
    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """Returns the messages completed by these bytes; the stream is unusable after a `CorruptFrame`."""
        buffer = self._buffer
        buffer += data
        messages: list[Any] = []
        start = 0
        while len(buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, start)
            if length > FRAME_CAP_BYTES:
                raise CorruptFrame(f"a frame says that it has {length} bytes; the cap is {FRAME_CAP_BYTES}")
            body = start + _LENGTH.size
            if len(buffer) - body < length:
                break
            try:
                messages.append(orjson.loads(bytes(buffer[body : body + length])))
            except orjson.JSONDecodeError as error:
                raise CorruptFrame(f"a frame of {length} bytes is not JSON: {error}") from error
            start = body + length
        del buffer[:start]
        return messages


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    run_id: str
    flow_name: str
    params: dict[str, Any]
    attempt: int
    workflow_yaml: str | None = None  # without it the resolver finds the flow by its name
    callable_allow: tuple[str, ...] = ()
    artifact_dir: str | None = None  # without it pyoco's own default, `artifacts` in the working directory
    secret_params: tuple[str, ...] = ()  # patterns of names
    request_id: str | None = None  # of the HTTP request that submitted the run
    correlation_id: str | None = None
    traceparent: str | None = None  # of the attempt's span, where traces are exported
    tracestate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run has ended and its runner is free again; `origin` is where the exception was raised.

    `results` are the tasks whose outputs are the result of a completed run.
    """

    at: float
    how: EndKind
    error_type: str | None = None
    message: str | None = None
    traceback: str | None = None
    origin: str | None = None
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerDied:
    """The runner's process has died, and the run with it.

    One of `exit_code` and `signal_name` is set; neither if the fork server was lost too. `never_began` is certain when
    it is true: the process died before it read the job, so another runner may run it. `at` is when the death was seen.
    """

    exit_code: int | None
    signal_name: str | None
    last_lines: tuple[str, ...]
    never_began: bool = False
    at: float | None = field(default=None, compare=False)  # equal deaths are equal at any time


@dataclass(frozen=True, slots=True, kw_only=True)
class RunUpdate:
    """The steps since the last update and, in the last one, the end of the run and the last lines it wrote."""

    steps: tuple[Step, ...] = ()
    end: RunEnded | RunnerDied | None = None
    last_lines: tuple[str, ...] = ()


def announcement_to_wire(announcement: FlowAnnouncement) -> list[Any]:
    return [flows_to_plain(announcement.flows), announcement.left_out, announcement.is_complete]


def announcement_from_wire(flows: object, left_out: object, is_complete: object) -> FlowAnnouncement:
    """Accepts anything, because user code may have written it; the result fits into the worker's record."""
    reasons = [one for one in left_out if isinstance(one, str)] if isinstance(left_out, list) else []
    return bounded(flows_from_plain(flows), reasons, is_complete=is_complete is True)


def job_from_wire(fields: dict[str, Any]) -> RunJob:
    tuples = {name: tuple(fields[name]) for name in ("callable_allow", "secret_params")}
    return RunJob(**fields | tuples)


# Steps are lists, not objects: encoding and matching them takes half the time, and short runs notice.


def step_to_wire(step: Step) -> list[Any]:
    match step:
        case TaskStarted():
            return ["began", step.at, step.node, step.nth, step.limit_sec]
        case TaskProgressed():
            return ["progressed", step.at, step.node, step.nth, step.percent, step.message]
        case TaskSucceeded():
            return ["succeeded", step.at, step.node, step.nth, step.output]
        case TaskFailed():
            return ["failed", step.at, step.node, step.nth, step.error_type, step.message, step.traceback]
        case TasksDeclared():
            return ["declared", step.at, step.nodes, step.edges]
        case _:
            assert_never(step)


def step_from_wire(wire: list[Any]) -> Step:
    match wire:
        case ["began", at, node, nth, limit_sec]:
            return TaskStarted(at=at, node=node, nth=nth, limit_sec=limit_sec)
        case ["progressed", at, node, nth, percent, message]:
            return TaskProgressed(at=at, node=node, nth=nth, percent=percent, message=message)
        case ["succeeded", at, node, nth, output]:
            return TaskSucceeded(at=at, node=node, nth=nth, output=output)
        case ["failed", at, node, nth, error_type, message, traceback]:
            return TaskFailed(at=at, node=node, nth=nth, error_type=error_type, message=message, traceback=traceback)
        case ["declared", at, [*nodes], [*edges]]:
            return TasksDeclared(at=at, nodes=tuple(nodes), edges=tuple((source, target) for source, target in edges))
        case _:
            raise ValueError(f"not a step: {wire!r:.200}")


def ended_to_wire(ended: RunEnded) -> list[Any]:
    return [ended.at, ended.how, ended.error_type, ended.message, ended.traceback, ended.origin, ended.results]


def ended_from_wire(wire: list[Any]) -> RunEnded:
    at, how, error_type, message, traceback, origin, results = wire
    return RunEnded(
        at=at,
        how=how,
        error_type=error_type,
        message=message,
        traceback=traceback,
        origin=origin,
        results=tuple(str(name) for name in results),
    )
