"""What every port that tells of commits promises."""

from __future__ import annotations

import asyncio

from pyoco_server.domain.execution.events import Commit
from pyoco_server.domain.ids import RunId
from pyoco_server.ports import CommitHeard, Stored
from support.samples import completed, created, new_run_id, tagged
from support.stores import Ports

PATIENCE_SEC = 5.0


async def append(ports: Ports, run_id: RunId, commit: Commit, *, after: int = 0) -> int:
    stored = await ports.log.append(run_id, commit, after=after)
    assert isinstance(stored, Stored)
    return stored.version


async def test_who_listens_hears_of_each_commit_of_the_run_and_of_no_other(ports: Ports) -> None:
    mine, other = new_run_id(), new_run_id()
    heard: asyncio.Queue[CommitHeard] = asyncio.Queue()
    await ports.live.listen(mine, heard.put_nowait)

    await append(ports, other, created())
    first = await append(ports, mine, created())
    second = await append(ports, mine, tagged("a"), after=first)

    async with asyncio.timeout(PATIENCE_SEC):
        assert [(await heard.get()).sequence, (await heard.get()).sequence] == [first, second]
    assert heard.empty()


async def test_the_word_of_a_commit_says_whether_it_may_be_the_last(ports: Ports) -> None:
    run_id = new_run_id()
    heard: asyncio.Queue[CommitHeard] = asyncio.Queue()
    await ports.live.listen(run_id, heard.put_nowait)

    first = await append(ports, run_id, created())
    last = await append(ports, run_id, completed(), after=first)

    async with asyncio.timeout(PATIENCE_SEC):
        assert not (await heard.get()).may_end
        assert await heard.get() == CommitHeard(sequence=last, may_end=True)


async def test_a_refused_append_is_not_heard(ports: Ports) -> None:
    run_id = new_run_id()
    heard: asyncio.Queue[CommitHeard] = asyncio.Queue()
    first = await append(ports, run_id, created())
    await ports.live.listen(run_id, heard.put_nowait)

    await ports.log.append(run_id, tagged("refused"), after=0)
    second = await append(ports, run_id, tagged("a"), after=first)

    async with asyncio.timeout(PATIENCE_SEC):
        assert (await heard.get()).sequence == second


async def test_two_may_listen_to_one_run_and_the_first_to_go_takes_nothing_from_the_other(ports: Ports) -> None:
    run_id = new_run_id()
    gone: asyncio.Queue[CommitHeard] = asyncio.Queue()
    stays: asyncio.Queue[CommitHeard] = asyncio.Queue()
    stop = await ports.live.listen(run_id, gone.put_nowait)
    await ports.live.listen(run_id, stays.put_nowait)

    stop()
    stop()
    first = await append(ports, run_id, created())

    async with asyncio.timeout(PATIENCE_SEC):
        assert (await stays.get()).sequence == first
    assert gone.empty()
