"""Who is let in: credentials → a caller, by the ways that are switched on. It knows nothing of HTTP, nor of scopes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from pyoco_server.access.caller import Caller
from pyoco_server.application.keyring import Keyring
from pyoco_server.errors import CredentialsMissing, InvalidApiKey, InvalidToken, NatsUnavailable, PyocoError

logger = logging.getLogger(__name__)

# How often somebody who is in is looked at again, for what comes by itself: an end that was set, a key that rotated.
AGAIN_SEC = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a caller has shown, of the ways that are switched on."""

    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The keys there are, and whoever reads tokens; at least one of both."""

    keyring: Keyring | None = None
    read_token: Callable[[str], Caller] | None = None

    async def admit(self, shown: Credentials) -> Caller:
        """Who that is, or the error that says why nobody."""
        if shown.api_key is not None and shown.token is not None:
            # Whichever we chose, somebody would one day act under a name that is not the one they meant.
            raise InvalidToken("send an API key or a bearer token, not both", reason="two credentials")
        if shown.token is not None and self.read_token is not None:
            return self.read_token(shown.token)
        if shown.api_key is not None and self.keyring is not None:
            return await self.keyring.caller_of(shown.api_key)
        raise CredentialsMissing(reason="no credentials")

    async def until_out(self, shown: Credentials, *, again_sec: float = AGAIN_SEC) -> PyocoError:
        """Wait until credentials that were good are not good any more; returns why.

        For answers that go on for hours. While nothing can be known, whoever is in stays in.
        """
        while True:
            # First, and not after the wait: they were let in a while ago, and no news of that while comes again.
            try:
                await self.admit(shown)
            except (InvalidApiKey, InvalidToken) as refusal:
                return refusal
            except NatsUnavailable as away:
                logger.debug("whoever is in stays in", extra={"reason": away.detail})
            if self.keyring is not None and shown.api_key is not None:
                await self.keyring.news(again_sec)
            else:
                await asyncio.sleep(again_sec)
