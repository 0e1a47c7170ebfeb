"""What every worker registry promises."""

from __future__ import annotations

from dataclasses import replace

from pyoco_server.execution.ids import WorkerId
from support.samples import worker
from support.stores import Ports


async def test_a_record_comes_back_as_it_was_put(ports: Ports) -> None:
    await ports.registry.put(worker())

    assert await ports.registry.get(WorkerId("w1")) == worker()
    assert await ports.registry.get(WorkerId("w2")) is None


async def test_the_last_word_counts(ports: Ports) -> None:
    for last_seen_at in (1.0, 2.0, 3.0):
        await ports.registry.put(worker(last_seen_at=last_seen_at))

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert stored.last_seen_at == 3.0


async def test_all_workers_are_listed_once(ports: Ports) -> None:
    assert await ports.registry.all() == []
    for name in ("w1", "host.example-2", "w3"):
        await ports.registry.put(worker(name))
        await ports.registry.put(worker(name, last_seen_at=101.0))

    listed = await ports.registry.all()

    assert sorted(record.worker_id for record in listed) == ["host.example-2", "w1", "w3"]
    assert {record.last_seen_at for record in listed} == {101.0}


async def test_a_heartbeat_does_not_bring_a_hidden_worker_back(ports: Ports) -> None:
    await ports.registry.put(replace(worker(), hidden=True))

    await ports.registry.put(worker(last_seen_at=200.0))

    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert stored.hidden
    assert stored.last_seen_at == 200.0
