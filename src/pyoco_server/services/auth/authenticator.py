"""Authentication: credentials → a caller, by the enabled methods. Knows neither HTTP nor scopes."""

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

# How often the credentials of an open stream are checked again, for expiry and rotated keys.
AGAIN_SEC = 5.0
# How long a stream that was opened with the ticket of a token may last: as long as most tokens are valid.
STAY_SEC = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a request, of the enabled methods."""

    api_key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Authenticates by API keys, by tokens, or by both."""

    keyring: ApiKeyCache | None = None
    read_token: Callable[[str], Caller] | None = None

    async def admit(self, shown: Credentials) -> Caller:
        """The caller with these credentials, or the error with the reason."""
        if shown.api_key is not None and shown.token is not None:
            # Either choice could run a request under a name that its sender does not expect.
            raise InvalidToken("send an API key or a bearer token, not both", reason="two credentials")
        if shown.token is not None and self.read_token is not None:
            return self.read_token(shown.token)
        if shown.api_key is not None and self.keyring is not None:
            return await self.keyring.caller_of(shown.api_key)
        raise CredentialsMissing(reason="no credentials")

    async def check_again(self, caller: Caller) -> None:
        """Reject a caller whose key is no longer active, without seeing the key again."""
        if caller.api_key_id is not None and self.keyring is not None:
            await self.keyring.check_active(caller.api_key_id)

    async def until_out(self, shown: Credentials, *, again_sec: float = AGAIN_SEC) -> PyocoError:
        """Wait until valid credentials become invalid; returns the reason.

        For long responses. During outages existing streams stay authorised.
        """
        keyring = self.keyring if shown.api_key is not None else None
        return await _until_refused(lambda: self.admit(shown), keyring, again_sec)

    async def until_caller_out(self, caller: Caller, *, stay_sec: float = STAY_SEC) -> PyocoError:
        """The same for a caller with a ticket: until the key that requested the ticket is no longer active.

        The ticket of a token cannot be checked again, so its stream lasts for `stay_sec`.
        """
        if caller.api_key_id is not None and self.keyring is not None:
            return await _until_refused(lambda: self.check_again(caller), self.keyring, AGAIN_SEC)
        await asyncio.sleep(stay_sec)
        return InvalidTicket("the time of a stream with the ticket of a token is over", reason="stayed long")


async def _until_refused(
    look: Callable[[], Awaitable[object]], keyring: ApiKeyCache | None, again_sec: float
) -> PyocoError:
    while True:
        # Before the wait: a change since the request was admitted is not announced again.
        try:
            await look()
        except (InvalidApiKey, InvalidToken) as refusal:
            return refusal
        except BrokerUnavailable as away:
            logger.debug("credentials not checked", extra={"reason": away.detail})
        if keyring is not None:
            await keyring.news(again_sec)
        else:
            await asyncio.sleep(again_sec)
