"""The guarantees of every Presence."""

from __future__ import annotations

import asyncio

from pyoco_server.domain.ids import InstanceId
from pyoco_server.ports import PresenceNews
from support.samples import IDS
from support.stores import Ports


async def test_an_announcement_reaches_every_listener(ports: Ports) -> None:
    gateway = IDS.instance_id()
    heard: list[asyncio.Queue[tuple[InstanceId, PresenceNews]]] = [asyncio.Queue(), asyncio.Queue()]
    for queue in heard:
        await ports.presence.listen(lambda *news, queue=queue: queue.put_nowait(news))

    for news in PresenceNews:
        ports.presence.announce(gateway, news)

    async with asyncio.timeout(5):
        received = [[await queue.get() for _ in PresenceNews] for queue in heard]
    assert received == [[(gateway, news) for news in PresenceNews]] * 2


async def test_an_announcement_without_a_listener_is_no_error(ports: Ports) -> None:
    ports.presence.announce(IDS.instance_id(), PresenceNews.PRESENT)
