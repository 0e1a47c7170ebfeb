"""Finds out which flows there are in an environment, by a runner of its own that runs nothing else and then goes.

Building all flows side by side, or one that ends the process, does no harm there: no run ever sees that runner. A
scout that fails costs the announcement and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pyoco_server.domain.fleet.flows import FlowAnnouncement
from pyoco_server.worker.announce import ANNOUNCE_LIMIT_SEC
from pyoco_server.worker.generation import Generation
from pyoco_server.worker.runner import Runner


async def scout(generation: Generation, names: Sequence[str], *, loading_limit_sec: float) -> FlowAnnouncement:
    """What there is to announce; when it returns, the runner that said so is gone."""
    try:
        runner = await generation.fork()
    except OSError as error:
        return FlowAnnouncement(left_out=(f"no process could be started to ask for the flows: {error}",))
    gone = generation.departure(runner)
    try:
        return await _asked(runner, names, gone, loading_limit_sec)
    finally:
        runner.kill()
        # A generation that is given up is closed with its last runner, and this is one of them.
        await asyncio.wait([gone])


async def _asked(
    runner: Runner, names: Sequence[str], gone: asyncio.Future[Any], loading_limit_sec: float
) -> FlowAnnouncement:
    await _either(runner.loaded, gone, loading_limit_sec)
    if not _is_told(runner.loaded) or runner.loaded.result() is not None:
        return FlowAnnouncement()  # why, is told by the runners that serve: they have met with the same
    answer = runner.ask_for_flows(names)
    await _either(answer, gone, ANNOUNCE_LIMIT_SEC)
    if _is_told(answer):
        return answer.result()
    how = "the process that was asked for the flows died" if gone.done() else f"not told in {ANNOUNCE_LIMIT_SEC:g} s"
    return FlowAnnouncement(left_out=(how,))


async def _either(told: asyncio.Future[Any], gone: asyncio.Future[Any], timeout_sec: float) -> None:
    await asyncio.wait([told, gone], timeout=timeout_sec, return_when=asyncio.FIRST_COMPLETED)


def _is_told(answer: asyncio.Future[Any]) -> bool:
    return answer.done() and not answer.cancelled()
