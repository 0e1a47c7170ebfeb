# Generated from _async/base.py by scripts/unasync. Do not edit.
"""The attributes that all groups of methods of the client share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyoco_server.http_client._sync.streams import Streams
    from pyoco_server.http_client._sync.transfers import Transfers
    from pyoco_server.http_client._sync.transport import Transport


class Methods:
    """Set by `PyocoHttpClient.__init__`, which imports these modules and with them httpx."""

    _transport: Transport
    _streams: Streams
    _transfers: Transfers
