"""What every event log promises."""

from __future__ import annotations

import asyncio

from pyoco_server.ports import Conflict, Stored
from support.samples import created, new_run_id, tagged
from support.stores import Ports


async def test_commits_come_back_in_order_as_they_were_stored(ports: Ports) -> None:
    run_id, other_id = new_run_id(), new_run_id()
    first, second = created(), tagged("urgent")

    one = await ports.log.append(run_id, first, after=0)
    await ports.log.append(other_id, created(), after=0)
    assert isinstance(one, Stored)
    two = await ports.log.append(run_id, second, after=one.version)

    assert isinstance(two, Stored)
    stored = await ports.log.read(run_id)
    assert [(item.sequence, item.commit) for item in stored] == [(one.version, first), (two.version, second)]


async def test_a_read_gives_only_what_is_behind_the_sequence(ports: Ports) -> None:
    run_id = new_run_id()
    version = 0
    versions = []
    for commit in (created(), tagged("a"), tagged("b")):
        stored = await ports.log.append(run_id, commit, after=version)
        assert isinstance(stored, Stored)
        version = stored.version
        versions.append(version)

    assert [item.sequence for item in await ports.log.read(run_id, after=versions[0])] == versions[1:]
    assert await ports.log.read(run_id, after=versions[2]) == []


async def test_a_long_log_is_read_whole(ports: Ports) -> None:
    run_id, version, versions = new_run_id(), 0, []
    for number in range(1500):
        stored = await ports.log.append(run_id, tagged(f"label {number}"), after=version)
        assert isinstance(stored, Stored)
        version = stored.version
        versions.append(version)

    labels = [event.tag for item in await ports.log.read(run_id) for event in item.commit.events]  # type: ignore[union-attr]

    assert labels == [f"label {number}" for number in range(1500)]
    assert [item.sequence for item in await ports.log.read(run_id, after=versions[9])] == versions[10:]
    for after, limit in ((0, 1), (0, 1200), (0, 5000), (versions[9], 1), (versions[9], 16), (versions[9], 40)):
        read = await ports.log.read(run_id, after=after, limit=limit)
        assert [item.sequence for item in read] == [version for version in versions if version > after][:limit]


async def test_an_unknown_run_has_no_commits(ports: Ports) -> None:
    assert await ports.log.read(new_run_id()) == []


async def test_an_append_behind_an_older_commit_is_a_conflict(ports: Ports) -> None:
    run_id = new_run_id()
    first = await ports.log.append(run_id, created(), after=0)
    assert isinstance(first, Stored)
    await ports.log.append(run_id, tagged("faster"), after=first.version)

    assert await ports.log.append(run_id, tagged("slower"), after=first.version) == Conflict()
    assert await ports.log.append(run_id, created(), after=0) == Conflict()
    assert len(await ports.log.read(run_id)) == 2


async def test_an_append_to_a_log_that_is_not_there_says_so(ports: Ports) -> None:
    assert await ports.log.append(new_run_id(), tagged("late"), after=7) == Conflict()


async def test_of_many_writers_at_once_exactly_one_wins(ports: Ports) -> None:
    run_id = new_run_id()
    first = await ports.log.append(run_id, created(), after=0)
    assert isinstance(first, Stored)

    answers = await asyncio.gather(
        *(ports.log.append(run_id, tagged(f"writer {number}"), after=first.version) for number in range(20))
    )

    assert sum(isinstance(answer, Stored) for answer in answers) == 1
    assert len(await ports.log.read(run_id, after=first.version)) == 1


async def test_the_same_commit_again_is_found_and_not_stored_twice(ports: Ports) -> None:
    run_id, commit = new_run_id(), created()
    stored = await ports.log.append(run_id, commit, after=0)
    assert isinstance(stored, Stored)
    await ports.log.append(run_id, tagged("by somebody else"), after=stored.version)

    assert not stored.found
    assert await ports.log.append(run_id, commit, after=0) == Stored(version=stored.version, found=True)
    assert len(await ports.log.read(run_id)) == 2


async def test_a_purged_log_is_empty_and_its_neighbour_is_not(ports: Ports) -> None:
    run_id, other_id = new_run_id(), new_run_id()
    await ports.log.append(run_id, created(), after=0)
    await ports.log.append(other_id, created(), after=0)

    await ports.log.purge(run_id)

    assert await ports.log.read(run_id) == []
    assert len(await ports.log.read(other_id)) == 1
