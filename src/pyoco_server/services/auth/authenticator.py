"""Who is let in: credentials → a caller, by the ways that are switched on. It knows nothing of HTTP, nor of scopes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pyoco_server.domain.auth.caller import Caller
from pyoco_server.errors import (
    BrokerUnavailable,
    CredentialsMissing,
    InvalidApiKey,
    InvalidTicket,
    InvalidToken,
    PyocoError,
)
from pyoco_server.services.auth.api_key_cache import ApiKeyCache

logger = logging.getLogger(__name__)

Look = Callable[[], Awaitable[object]]

# How often somebody who is in is looked at again, for what comes by itself: an end that was set, a key that rotated.
AGAIN_SEC = 5.0
# How long somebody may stay who came with the ticket of a token; as long as most tokens are good for.
STAY_SEC = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a caller has shown, of the ways that are switched on."""

    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """The keys there are, and whoever reads tokens; at least one of both."""

    keyring: ApiKeyCache | None = None
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

    async def check_again(self, caller: Caller) -> None:
        """Refuse somebody whose key is not good any more, for one who does not show it again."""
        if caller.api_key_id is not None and self.keyring is not None:
            await self.keyring.check_active(caller.api_key_id)

    async def until_out(self, shown: Credentials, *, again_sec: float = AGAIN_SEC) -> PyocoError:
        """Wait until credentials that were good are not good any more; returns why.

        For answers that go on for hours. While nothing can be known, whoever is in stays in.
        """
        keyring = self.keyring if shown.api_key is not None else None
        return await _until_refused(lambda: self.admit(shown), keyring, again_sec)

    async def until_caller_out(self, caller: Caller, *, stay_sec: float = STAY_SEC) -> PyocoError:
        """The same for somebody who came with a ticket: until the key with which they got it is not good any more.

        Of a token nothing is known any more but whom it spoke for, so they may stay for so long.
        """
        if caller.api_key_id is not None and self.keyring is not None:
            return await _until_refused(lambda: self.check_again(caller), self.keyring, AGAIN_SEC)
        await asyncio.sleep(stay_sec)
        return InvalidTicket("who came with the ticket of a token may stay for a while only", reason="stayed long")


async def _until_refused(
    look: Callable[[], Awaitable[object]], keyring: ApiKeyCache | None, again_sec: float
) -> PyocoError:
    while True:
        # First, and not after the wait: they were let in a while ago, and no news of that while comes again.
        try:
            await look()
        except (InvalidApiKey, InvalidToken) as refusal:
            return refusal
        except BrokerUnavailable as away:
            logger.debug("whoever is in stays in", extra={"reason": away.detail})
        if keyring is not None:
            await keyring.news(again_sec)
        else:
            await asyncio.sleep(again_sec)
