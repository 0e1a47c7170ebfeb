"""The guarantees of every Signals."""

from __future__ import annotations

import asyncio

from pyoco_server.domain.ids import RunId
from support.samples import IDS, new_run_id
from support.stores import Ports


def nothing(_run_id: RunId) -> bool:
    return False


async def test_a_signal_reaches_only_its_instance(ports: Ports) -> None:
    mine, other, run_id = IDS.instance_id(), IDS.instance_id(), new_run_id()
    received: asyncio.Queue[RunId] = asyncio.Queue()
    overheard: list[RunId] = []
    await ports.signals.listen(mine, received.put_nowait, nothing)
    await ports.signals.listen(other, overheard.append, nothing)

    await ports.signals.tell(mine, run_id)

    async with asyncio.timeout(5):
        assert await received.get() == run_id
    assert overheard == []


async def test_a_signal_without_a_listener_is_no_error(ports: Ports) -> None:
    await ports.signals.tell(IDS.instance_id(), new_run_id())


async def test_an_instance_responds_once_it_listens(ports: Ports) -> None:
    instance_id = IDS.instance_id()
    received: list[RunId] = []
    assert not await ports.signals.answers(instance_id)

    await ports.signals.listen(instance_id, received.append, nothing)

    assert await ports.signals.answers(instance_id)
    assert received == []


async def test_an_instance_reports_whether_it_executes_a_run(ports: Ports) -> None:
    instance_id, ours, other = IDS.instance_id(), new_run_id(), new_run_id()
    received: list[RunId] = []
    assert not await ports.signals.holds(instance_id, ours)

    await ports.signals.listen(instance_id, received.append, lambda run_id: run_id == ours)

    assert await ports.signals.holds(instance_id, ours)
    assert not await ports.signals.holds(instance_id, other)
    assert received == []
