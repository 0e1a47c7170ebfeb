"""What the groups of methods of the async client share: a wire, and a connection to send over. Nothing for users."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyoco_server.http_client.async_wire import AsyncWire
    from pyoco_server.http_client.call_parts import Call
    from pyoco_server.http_client.connection import Connection
    from pyoco_server.http_client.effects import Script

T = TypeVar("T")


class AsyncAsker:
    """Sends calls and runs scripts; whoever is one has set up wire and connection."""

    _connection: Connection
    _wire: AsyncWire

    async def _send(self, call: Call[T]) -> T:
        from pyoco_server.http_client import scripts  # here: it brings httpx along

        return await self._wire.run(scripts.send(call, self._connection))

    async def _run(self, script: Script[T]) -> T:
        return await self._wire.run(script)

    def _tell(self, script: Script[None]) -> AsyncGenerator[Any, None]:
        return self._wire.tell(script)
