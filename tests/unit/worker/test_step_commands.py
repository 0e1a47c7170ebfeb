"""Reported steps as commands, and ends as failures."""

from __future__ import annotations

from pyoco_server.domain.execution.commands import DeclareNodes, FailNode, ReportNodeProgress, StartNode, SucceedNode
from pyoco_server.domain.execution.state import Failure
from pyoco_server.domain.ids import NodeId, WorkerId
from pyoco_server.trace import TaskFailed, TaskProgressed, TasksDeclared, TaskStarted, TaskSucceeded
from pyoco_server.worker.attempt.step_commands import (
    LAST_LINES_BYTES,
    LINE_CHARS,
    MESSAGE_CHARS,
    bounded_last_lines,
    running_nodes,
    to_commands,
    to_failure,
)
from pyoco_server.worker.runner_process.protocol import EXIT_CUT_OFF, RunEnded, RunnerDied

WORKER = WorkerId("w-1")
NODE = NodeId("load")


def test_steps_become_node_commands_in_their_order() -> None:
    steps = (
        TasksDeclared(at=1.0, nodes=("load", "save"), edges=(("load", "save"),)),
        TaskStarted(at=2.0, node="load", nth=1),
        TaskSucceeded(at=3.0, node="load", nth=1, output={"rows": 2}),
        TaskStarted(at=4.0, node="save", nth=1),
        TaskFailed(at=5.0, node="save", nth=1, error_type="ValueError", message="no", traceback="Trace"),
    )

    commands = to_commands(steps, {}, WORKER)

    assert commands == (
        DeclareNodes(at=1.0, node_ids=(NODE, NodeId("save")), edges=((NODE, NodeId("save")),)),
        StartNode(at=2.0, node_id=NODE, attempt=1, worker_id=WORKER),
        SucceedNode(at=3.0, node_id=NODE, attempt=1, output={"rows": 2}),
        StartNode(at=4.0, node_id=NodeId("save"), attempt=1, worker_id=WORKER),
        FailNode(
            at=5.0,
            node_id=NodeId("save"),
            attempt=1,
            error=Failure(code="ValueError", message="no", traceback="Trace"),
        ),
    )


def test_attempts_of_a_node_continue_from_earlier_workers() -> None:
    steps = (
        TaskStarted(at=2.0, node="load", nth=1),
        TaskSucceeded(at=3.0, node="load", nth=1, output=None),
        TaskStarted(at=4.0, node="load", nth=2),
    )

    commands = to_commands(steps, {NODE: 3}, WORKER)

    assert [getattr(command, "attempt", None) for command in commands] == [4, 4, 5]


def test_a_missing_flow_is_named_in_the_failure() -> None:
    failure = to_failure(RunEnded(at=1.0, how="flow_not_found"), "nightly")

    assert failure.code == "ERR-PYOCO-0006"
    assert failure.message == "flow not found: no flow named 'nightly' on this worker"


def test_a_failure_has_the_type_and_the_message_of_its_exception() -> None:
    failed = RunEnded(at=1.0, how="failed", error_type="ValueError", message="no such file", traceback="Trace")

    failure = to_failure(failed, "nightly")

    assert failure == Failure(code="ERR-PYOCO-0007", message="ValueError: no such file", traceback="Trace")


def test_an_exception_without_a_message_is_named_by_its_type() -> None:
    assert to_failure(RunEnded(at=1.0, how="failed", error_type="KeyError"), "nightly").message == "KeyError"


def test_a_killed_runner_is_described_by_its_signal_and_last_line() -> None:
    died = RunnerDied(exit_code=None, signal_name="SIGSEGV", last_lines=("loading", "about to divide"))

    failure = to_failure(died, "nightly")

    assert failure.message == "the runner process was ended by SIGSEGV; its last line was: about to divide"
    assert failure.traceback is None


def test_a_runner_that_was_killed_from_outside_is_described_with_the_likely_cause() -> None:
    failure = to_failure(RunnerDied(exit_code=None, signal_name="SIGKILL", last_lines=()), "nightly")

    assert failure.message == (
        "the runner process was ended by SIGKILL, and not by its worker:"
        " most likely the system ran out of memory, or the process was killed from outside"
    )


def test_the_last_line_of_a_crashed_flow_excludes_pythons_crash_report() -> None:
    lines = (
        "about to divide",
        "",
        "Fatal Python error: Segmentation fault",
        "",
        "Current thread 0x7f (most recent call",
    )

    failure = to_failure(RunnerDied(exit_code=None, signal_name="SIGSEGV", last_lines=lines), "nightly")

    assert failure.message.endswith("; its last line was: about to divide")


def test_a_disconnected_runner_is_described_with_the_likely_cause() -> None:
    failure = to_failure(RunnerDied(exit_code=EXIT_CUT_OFF, signal_name=None, last_lines=()), "nightly")

    assert "a task has closed file descriptors not its own" in failure.message


def test_errors_and_last_lines_are_bounded() -> None:
    failed = RunEnded(at=1.0, how="failed", error_type="ValueError", message="x" * 100_000)

    assert len(to_failure(failed, "nightly").message) == MESSAGE_CHARS
    assert bounded_last_lines(["short", "y" * 1_000]) == ("short", "y" * (LINE_CHARS - 1) + "…")
    assert bounded_last_lines([str(n) + "夜" * 299 for n in range(40)])[-1].startswith("39夜")
    assert sum(len(line.encode()) for line in bounded_last_lines(["夜" * 299] * 40)) <= LAST_LINES_BYTES


def test_running_nodes_are_the_recorded_ones_updated_by_pending_steps() -> None:
    steps = (
        TaskSucceeded(at=2.0, node="load", nth=1, output=None),
        TaskStarted(at=3.0, node="save", nth=1),
    )

    assert running_nodes(["load", "watch"], steps) == ["watch", "save"]


def test_progress_belongs_to_its_attempt() -> None:
    (command,) = to_commands(
        (TaskProgressed(at=2.0, node="load", nth=2, percent=42.0, message="halfway"),), {NODE: 3}, WORKER
    )

    assert command == ReportNodeProgress(at=2.0, node_id=NODE, attempt=5, progress=42.0, message="halfway")


def test_a_runner_that_exited_is_described_by_its_exit_code() -> None:
    failure = to_failure(RunnerDied(exit_code=3, signal_name=None, last_lines=()), "nightly")

    assert failure.message == "the runner process exited with code 3 in the middle of the run"
    assert failure.traceback is None


def test_a_runner_without_an_exit_status_is_lost() -> None:
    died = RunnerDied(exit_code=None, signal_name=None, last_lines=())

    assert to_failure(died, "nightly").message == "the runner process was lost"
