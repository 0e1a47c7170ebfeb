"""The runner process reports each step of a run once, and nothing after its end."""

from __future__ import annotations

import os
import socket

from pyoco_server.trace import TaskStarted
from pyoco_server.worker.output.capture import OutputCapture
from pyoco_server.worker.runner_process.process import RunnerProcess, _Run
from pyoco_server.worker.runner_process.protocol import Decoder, RunEnded, RunJob


def test_the_steps_of_an_ended_run_are_not_sent_with_the_next_one() -> None:
    supervisor, runner = socket.socketpair()
    with supervisor, runner:
        process = RunnerProcess(runner, OutputCapture(os.open(os.devnull, os.O_WRONLY)))
        run = _Run(RunJob(run_id="r", flow_name="main", params={}, attempt=1), process)
        run.emit(TaskStarted(at=1.0, node="a", nth=1))
        run.end(RunEnded(at=2.0, how="completed"))

        told_again = run.flush()

        assert not told_again
        assert len(Decoder().feed(supervisor.recv(65_536))) == 1
