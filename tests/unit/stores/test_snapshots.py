"""Snapshots: versions only rise, removed ones stay removed."""

from __future__ import annotations

import asyncio

from support.samples import execution_at, new_run_id
from support.stores import Ports


async def test_a_new_snapshot_is_loaded_as_it_was_stored(ports: Ports) -> None:
    run_id = new_run_id()

    stored = await ports.snapshots.advance(execution_at(run_id, 3), create=True)

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded == stored
    assert loaded.execution == execution_at(run_id, 3)
    assert loaded.plain["version"] == 3
    assert ports.snapshots.last_revision == loaded.revision


async def test_a_missing_snapshot_is_created_by_a_new_run_only(ports: Ports) -> None:
    run_id = new_run_id()

    assert await ports.snapshots.advance(execution_at(run_id, 3)) is None
    assert await ports.snapshots.touch(run_id, 50.0) is None

    assert await ports.snapshots.load(run_id) is None


async def test_an_older_version_never_replaces_a_newer_one(ports: Ports) -> None:
    run_id = new_run_id()
    outdated = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    await ports.snapshots.advance(execution_at(run_id, 5))

    stored = await ports.snapshots.advance(execution_at(run_id, 2), known=outdated)
    again = await ports.snapshots.advance(execution_at(run_id, 1), create=True)

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded.execution.version == 5
    assert stored == again == loaded


async def test_a_newer_version_is_stored_despite_an_outdated_known_snapshot(ports: Ports) -> None:
    run_id = new_run_id()
    outdated = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    await ports.snapshots.advance(execution_at(run_id, 2))

    await ports.snapshots.advance(execution_at(run_id, 3), known=outdated)

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded.execution.version == 3


async def test_the_newest_version_wins_for_any_order_of_writers(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.snapshots.advance(execution_at(run_id, 1), create=True)

    await asyncio.gather(*(ports.snapshots.advance(execution_at(run_id, version)) for version in (7, 3, 9, 2, 8)))

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded.execution.version == 9


async def test_a_touch_renews_the_heartbeat_and_nothing_else(ports: Ports) -> None:
    run_id = new_run_id()
    before = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    assert before is not None

    touched = await ports.snapshots.touch(run_id, 50.0)

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded == touched
    assert loaded.plain == {**before.plain, "heartbeat_at": 50.0}


async def test_a_touch_never_moves_the_heartbeat_back(ports: Ports) -> None:
    run_id = new_run_id()
    await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    await ports.snapshots.touch(run_id, 50.0)

    await ports.snapshots.touch(run_id, 40.0)
    await ports.snapshots.advance(execution_at(run_id, 2))

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert loaded.plain["heartbeat_at"] == 50.0


async def test_a_removed_snapshot_stays_removed(ports: Ports) -> None:
    run_id = new_run_id()
    known = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    assert known is not None

    assert await ports.snapshots.remove(run_id, known.revision)
    assert await ports.snapshots.remove(run_id, known.revision)

    assert not await ports.snapshots.claim(known)
    assert await ports.snapshots.load(run_id) is None
    assert await ports.snapshots.advance(execution_at(run_id, 2), known=known) is None
    assert await ports.snapshots.advance(execution_at(run_id, 2)) is None
    assert await ports.snapshots.advance(execution_at(run_id, 2), create=True) is None
    assert await ports.snapshots.load(run_id) is None


async def test_a_snapshot_that_changed_meanwhile_is_not_removed(ports: Ports) -> None:
    run_id = new_run_id()
    seen = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    assert seen is not None
    await ports.snapshots.advance(execution_at(run_id, 2))

    assert not await ports.snapshots.remove(run_id, seen.revision)

    assert await ports.snapshots.load(run_id) is not None


async def test_one_of_many_claims_of_a_revision_succeeds(ports: Ports) -> None:
    run_id = new_run_id()
    known = await ports.snapshots.advance(execution_at(run_id, 1), create=True)
    assert known is not None

    claims = await asyncio.gather(*(ports.snapshots.claim(known) for _ in range(5)))

    loaded = await ports.snapshots.load(run_id)
    assert loaded is not None
    assert sorted(claims) == [False, False, False, False, True]
    assert loaded.revision > known.revision
    assert (loaded.execution, loaded.heartbeat_at) == (known.execution, known.heartbeat_at)
