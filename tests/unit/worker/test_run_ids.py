"""The ids of a submit reach the lines of its worker, and its task as attributes and variables."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest
from pyoco.core.models import Flow, Task

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.execution.events import Actor
from pyoco_server.log_context import current_request_id, log_fields
from pyoco_server.logs import JsonLines
from pyoco_server.services.context import CommandContext
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.worker.runner_process.flow_run import CancelSwitch, run_flow
from pyoco_server.worker.runner_process.process import _ProcessState, _set_variables
from pyoco_server.worker.runner_process.protocol import RunJob
from support.world import HELLO, World
from unit.worker.conftest import running_worker

REQUEST, ORDER = "01J8TPZ7YJ1E1X4C5N9ZP3M3QJ", "order-66"
SUBMIT = CommandContext(actor=Actor(kind="user", id="ann"), request_id=REQUEST, correlation_id=ORDER, address="::1")
JOB = RunJob(run_id="r1", flow_name="main", params={}, attempt=1, request_id=REQUEST, correlation_id=ORDER)


async def test_every_line_of_a_worker_about_a_run_has_the_ids_of_its_submit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world, lines = World(), JsonLines("test", NatsBackendConfig())
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(lines.format(record))  # type: ignore[method-assign]
    logging.getLogger("pyoco_server.worker").addHandler(handler)
    try:
        created = await SubmitService(stores=world.stores).submit(HELLO, ("default",), SUBMIT)
        async with running_worker(world) as handle:
            runner = await handle.executor.begun()
            runner.end("failed", message="no such file")
            await world.until(created.execution_id, "FAILED")
    finally:
        logging.getLogger("pyoco_server.worker").removeHandler(handler)

    about = [line for line in written if created.execution_id in line]
    assert len(about) == 2
    assert all(REQUEST in line and ORDER in line for line in about)
    assert runner.job is not None
    assert (runner.job.request_id, runner.job.correlation_id) == (REQUEST, ORDER)
    assert current_request_id() is None
    assert log_fields() == {}


def test_a_task_finds_the_ids_in_its_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[Any] = []

    def look(ctx: Any) -> None:
        seen.extend((ctx.request_id, ctx.correlation_id))

    flow = Flow("main")
    flow.add_task(Task(func=look, name="look"))

    run_flow(flow, JOB, lambda step: None, CancelSwitch())

    assert seen == [REQUEST, ORDER]


def test_the_variables_are_those_of_the_run_and_leave_with_it() -> None:
    names = ("PYOCO_RUN_ID", "PYOCO_REQUEST_ID", "PYOCO_CORRELATION_ID")

    before = _ProcessState()
    _set_variables(JOB)
    within = [os.environ.get(name) for name in names]
    before.restore()

    assert within == ["r1", REQUEST, ORDER]
    assert [os.environ.get(name) for name in names] == [None] * 3
