"""Lists wait for this gateway's own writes and are refused while they may be incomplete."""

from __future__ import annotations

import asyncio

import orjson
import pytest
from msgspec.structs import replace

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.cursors import Walk, encode
from pyoco_server.domain.queries.rows import Removed
from pyoco_server.errors import BrokerUnavailable, IndexUnavailable, InvalidListQuery, RunNotFound
from pyoco_server.ports import IndexPosition, JobQuery, LabelCount, LabelQuery, RunQuery, Stored
from pyoco_server.services.executions.submit import SubmitService
from pyoco_server.services.projections.lists import HEAVY_LISTS, LOADED_AT_A_TIME, ItemPage, list_is_stale
from pyoco_server.stores import LoadedSnapshot
from support.services import following, services_of
from support.world import HELLO, USER, World

EVERYTHING = RunQuery(limit=50)
POSITION = IndexPosition(stream_created="1970-01-01T00:00:00Z", sequence=10_000, last_key="")


async def test_a_list_is_refused_while_the_index_is_being_built(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.lists.FIRST_FILL_WAIT_SEC", 0.01)
    services = services_of(world)

    with pytest.raises(IndexUnavailable, match="being built"):
        await services.lists.summaries(EVERYTHING)


async def test_a_list_that_cannot_be_built_is_reported_as_failed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.lists.FIRST_FILL_WAIT_SEC", 0.01)
    services = services_of(world)
    services.lists.indexer.failing_since = 1.0

    with pytest.raises(IndexUnavailable, match="cannot be built at present"):
        await services.lists.summaries(EVERYTHING)


async def test_a_list_is_refused_during_an_outage(world: World) -> None:
    async with following(world) as services:
        world.faults.is_offline = True

        with pytest.raises(BrokerUnavailable):
            await services.lists.summaries(EVERYTHING)
        with pytest.raises(BrokerUnavailable):
            await services.lists.snapshots(EVERYTHING)
        with pytest.raises(BrokerUnavailable):
            await services.lists.jobs(JobQuery())
        with pytest.raises(BrokerUnavailable):
            await services.lists.labels(LabelQuery())


async def test_a_list_waits_for_writes_of_this_gateway(world: World) -> None:
    async with following(world) as services:
        for _ in range(5):
            run_id = (await services.executions.submit(HELLO, ("default",), USER)).execution_id
            listed = [orjson.loads(item)["run_id"] for item in await services.lists.summaries(EVERYTHING)]
            assert run_id in listed


async def test_lists_of_jobs_and_labels_wait_for_writes_of_this_gateway(world: World) -> None:
    async with following(world) as services:
        for already in range(5):
            run_id = (await services.executions.submit(HELLO, ("default", "x"), USER)).execution_id

            newest = (await services.lists.jobs(JobQuery(labels=("x",), limit=1))).runs[0]
            assert newest.run_id == run_id
            assert await services.lists.labels(LabelQuery(prefix="x")) == [LabelCount("x", already + 1)]


async def test_a_run_removed_between_index_and_store_is_omitted_from_a_list_of_whole_runs(world: World) -> None:
    async with following(world) as services:
        kept, removed = await world.submit(), await world.submit()
        await services.lists.summaries(EVERYTHING)

        async def remove() -> None:
            await world.truth.snapshots.remove(removed)

        world.faults.before("snapshots.load", remove)
        whole = await services.lists.snapshots(EVERYTHING)

    assert [snapshot["run_id"] for snapshot in whole if not isinstance(snapshot, bytes)] == [kept]


async def test_a_forged_cursor_beyond_the_stored_position_is_refused(world: World) -> None:
    async with following(world) as services:
        cursor = encode(Walk(mark=2**60, before=(1.0, "")), EVERYTHING, services.lists.indexer.stream)

        with pytest.raises(InvalidListQuery, match="not made by this server"):
            await services.lists.page(EVERYTHING, cursor)


async def test_a_gateway_behind_a_cursor_reports_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.lists.CURSOR_WAIT_SEC", 0.01)
    async with following(world) as services:
        cursor = encode(Walk(mark=1, before=(1.0, "")), EVERYTHING, services.lists.indexer.stream)
        monkeypatch.setattr(world.index, "apply", lambda changes, position: None)
        monkeypatch.setattr(services.lists.indexer, "_move_to", lambda sequence: None)
        await SubmitService(stores=world.truth).submit(HELLO, ("default",), USER)

        with pytest.raises(BrokerUnavailable, match="as far as the cursor"):
            await services.lists.page(EVERYTHING, cursor)


async def test_a_run_that_changes_between_two_pages_is_not_lost(world: World) -> None:
    one = RunQuery(limit=1)
    async with following(world) as services:
        older, newer = await world.submit(), await world.submit()
        first = await services.lists.page(one, "")
        world.clock.pass_time(1.0)
        await world.start(older)
        second = await services.lists.page(one, first.next_cursor or "")

    assert [shown_in(page) for page in (first, second)] == [[(newer, "PENDING")], [(older, "RUNNING")]]
    assert second.next_cursor is None


def shown_in(page: ItemPage) -> list[tuple[str, str]]:
    items = [orjson.loads(item) for item in page.items if isinstance(item, bytes)]
    return [(item["run_id"], item["status"]) for item in items]


async def test_a_run_missing_in_the_index_belongs_to_no_tenant(world: World) -> None:
    ours = await world.submit(replace(HELLO, tenant_id="ours"))
    theirs = await world.submit()
    unknown = await world.submit(replace(HELLO, tenant_id="ours"))
    await world.catch_up()
    world.index.apply([Removed(run_id=unknown, revision=10_000)], POSITION)

    assert services_of(world).lists.runs_of("ours", among=[ours, theirs, unknown]) == {ours}


async def test_the_number_of_concurrent_lists_of_whole_runs_is_bounded(world: World) -> None:
    load, now, most = world.stores.snapshots.load, 0, 0

    async def counted(run_id: RunId) -> LoadedSnapshot | None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0)
        try:
            return await load(run_id)
        finally:
            now -= 1

    async with following(world) as services:
        for _ in range(LOADED_AT_A_TIME):
            await SubmitService(stores=world.stores).submit(HELLO, (), USER)
        await services.lists.fresh()
        world.stores.snapshots.load = counted  # type: ignore[method-assign]

        lists = await asyncio.gather(*(services.lists.snapshots(EVERYTHING) for _ in range(4 * HEAVY_LISTS)))

    assert {len(items) for items in lists} == {LOADED_AT_A_TIME}
    assert most == HEAVY_LISTS * LOADED_AT_A_TIME


async def test_a_list_without_the_last_write_of_this_gateway_reports_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyoco_server.services.projections.lists.OWN_WRITE_WAIT_SEC", 0.01)
    async with following(world) as services:
        monkeypatch.setattr(services.lists.indexer, "_move_to", lambda sequence: None)
        await services.executions.submit(HELLO, ("default",), USER)

        await services.lists.summaries(EVERYTHING)

        assert list_is_stale.get()
        assert world.stores.counters.stale_lists == 1


@pytest.mark.parametrize("value", [b"no json", b"[]", b'{"status": "COMPLETED", "version": 3}'])
async def test_an_unreadable_snapshot_is_neither_listed_nor_found_by_id(world: World, value: bytes) -> None:
    async with following(world) as services:
        run_id = await world.submit()
        known = await world.snapshot(run_id)
        assert known is not None
        stored = await world.truth.snapshots._bucket.put(run_id, value, revision=known.revision)
        assert isinstance(stored, Stored)
        assert await services.lists.indexer.reached(stored.version, 5.0)

        assert await services.lists.summaries(EVERYTHING) == []
        assert await services.lists.snapshots(EVERYTHING) == []
        with pytest.raises(RunNotFound):
            await services.executions.get_snapshot(run_id, tenant_filter=None)
