"""The attributes that all groups of methods of the client share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.http_client._async.streams import AsyncStreams
    from pyoco_server.http_client._async.transfers import AsyncTransfers
    from pyoco_server.http_client._async.transport import AsyncTransport


class AsyncMethods:
    """Set by `AsyncPyocoHttpClient.__init__`, which imports these modules and with them httpx."""

    _transport: AsyncTransport
    _streams: AsyncStreams
    _transfers: AsyncTransfers
