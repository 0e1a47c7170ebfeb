"""Who is let in: credentials → a caller, by the ways that are switched on. It knows nothing of HTTP, nor of scopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyoco_server.access.caller import Caller
from pyoco_server.application.keyring import Keyring
from pyoco_server.errors import CredentialsMissing, InvalidToken


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
