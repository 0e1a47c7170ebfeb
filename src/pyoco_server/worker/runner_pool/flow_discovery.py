"""Discovers the flows of an environment in a dedicated runner that never runs a job.

Building all flows in one process, or a flow that ends the process, is harmless there. A failed discovery costs only the
announcement.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.worker.runner_pool.runner import ProcessRunner
from pyoco_server.worker.runner_pool.runner_group import RunnerGroup
from pyoco_server.worker.runner_process.flow_announcement import ANNOUNCE_LIMIT_SEC


async def discover_flows(group: RunnerGroup, names: Sequence[str], *, loading_limit_sec: float) -> FlowAnnouncement:
    """The flows to announce. The runner that was used has exited when this returns."""
    try:
        runner = await group.fork()
    except OSError as error:
        return FlowAnnouncement(left_out=(f"no process could be started to list the flows: {error}",))
    try:
        return await _request(runner, names, loading_limit_sec)
    finally:
        runner.kill()
        # A replaced group is closed with its last runner, and this is one of them.
        await asyncio.wait([runner.exited])


async def _request(runner: ProcessRunner, names: Sequence[str], loading_limit_sec: float) -> FlowAnnouncement:
    await _wait_for(runner.loaded, runner, loading_limit_sec)
    if not _has_result(runner.loaded) or runner.loaded.result() is not None:
        return FlowAnnouncement()  # the serving runners report the same failure
    answer = runner.request_flows(names)
    await _wait_for(answer, runner, ANNOUNCE_LIMIT_SEC)
    if _has_result(answer):
        return answer.result()
    no_answer = f"no answer within {ANNOUNCE_LIMIT_SEC:g} s"
    return FlowAnnouncement(left_out=("the process that lists the flows died" if runner.exited.done() else no_answer,))


async def _wait_for(answer: asyncio.Future[Any], runner: ProcessRunner, timeout_sec: float) -> None:
    await asyncio.wait([answer, runner.exited], timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _has_result(answer: asyncio.Future[Any]) -> bool:
    return answer.done() and not answer.cancelled()
