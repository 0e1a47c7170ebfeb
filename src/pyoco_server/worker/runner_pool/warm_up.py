"""Waits until a runner has loaded the resolver, and says why one did not."""

from __future__ import annotations

import asyncio
from typing import Any

from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.runner_pool.runner import ProcessRunner
from pyoco_server.worker.runner_pool.runner_group import RunnerGroup
from pyoco_server.worker.runner_process.protocol import RunnerDied

LOADING_LIMIT_SEC = 120.0


async def first_runner(group: RunnerGroup, resolver: str, *, needs_resolver: bool) -> ProcessRunner:
    """A warm runner of a new group; `InvalidUsage` if it does not get warm, or cannot load a resolver that it needs."""
    try:
        runner = await group.fork()
    except OSError as error:
        raise InvalidUsage(f"no runner could be started: {error}", resolver=resolver) from error
    ends: list[asyncio.Future[Any]] = [runner.loaded, runner.exited]
    await asyncio.wait(ends, timeout=LOADING_LIMIT_SEC, return_when=asyncio.FIRST_COMPLETED)
    if runner.loaded.cancelled():
        raise InvalidUsage(death(resolver, await asyncio.shield(runner.exited)), resolver=resolver)
    reason = runner.loaded.result() if runner.loaded.done() else too_slow(resolver)
    if reason is not None and (needs_resolver or not runner.loaded.done()):
        raise InvalidUsage(reason, resolver=resolver)
    return runner


def death(resolver: str, died: RunnerDied) -> str:
    how = died.signal_name or f"exit code {died.exit_code}"
    output = "".join(f"\n{line}" for line in died.last_lines)
    return f"the process that loads the flow resolver {resolver!r} died ({how}){output}"


def too_slow(resolver: str) -> str:
    return f"the flow resolver {resolver!r} was not loaded within {LOADING_LIMIT_SEC:.0f} s"
