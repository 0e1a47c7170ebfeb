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


async def test_a_worker_id_is_not_given_away_while_another_instance_speaks(ports: Ports) -> None:
    await ports.registry.put(worker(instance_id="first", last_seen_at=100.0))

    holder = await ports.registry.claim(worker(instance_id="second", last_seen_at=105.0), silent_sec=10.0)

    assert holder == worker(instance_id="first", last_seen_at=100.0)
    stored = await ports.registry.get(WorkerId("w1"))
    assert stored is not None
    assert stored.instance_id == "first"


async def test_a_worker_id_passes_on_after_silence_a_stop_or_to_the_same_instance(ports: Ports) -> None:
    await ports.registry.put(worker("silent", "first", last_seen_at=100.0))
    await ports.registry.put(replace(worker("stopped", "first", last_seen_at=100.0), stopped_at=100.0))
    await ports.registry.put(worker("same", "first", last_seen_at=100.0))

    claims = [
        worker("silent", "second", last_seen_at=111.0),
        worker("stopped", "second", last_seen_at=101.0),
        worker("same", "first", last_seen_at=101.0),
        worker("new", "first", last_seen_at=101.0),
    ]

    for claim in claims:
        assert await ports.registry.claim(claim, silent_sec=10.0) is None
        assert await ports.registry.get(claim.worker_id) == claim
