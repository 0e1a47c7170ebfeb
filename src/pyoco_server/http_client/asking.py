"""What the groups of methods of the blocking client share: a wire, and a connection to send over. Nothing for users."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyoco_server.http_client.call_parts import Call
    from pyoco_server.http_client.connection import Connection
    from pyoco_server.http_client.effects import Script
    from pyoco_server.http_client.wire import Wire

T = TypeVar("T")


class Asker:
    """Sends calls and runs scripts; whoever is one has set up wire and connection."""

    _connection: Connection
    _wire: Wire

    def _send(self, call: Call[T]) -> T:
        from pyoco_server.http_client import scripts  # here: it brings httpx along

        return self._wire.run(scripts.send(call, self._connection))

    def _run(self, script: Script[T]) -> T:
        return self._wire.run(script)

    def _tell(self, script: Script[None]) -> Generator[Any, None, None]:
        return self._wire.tell(script)
