"""Verifies bearer tokens (JWT): signature, then claims. Valid tokens are cached until they expire.

A token's own choice of algorithm or key source is never followed.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import jwt

from pyoco_server.adapters.jwt.keys import TokenKeys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.claims import Admitted, TokenRules, admitted_by
from pyoco_server.errors import InvalidToken
from pyoco_server.ports import Clock

MAX_TOKEN_CHARS = 8192
MAX_REMEMBERED = 4096
# `at+jwt` is what RFC 9068 calls an access token.
_TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
# Each of them would take the key, or the rules, from the token itself.
_NOT_FOLLOWED = ("jwk", "jku", "x5c", "x5u", "crit", "b64", "zip", "enc")
# The claims are checked by our own rules: PyJWT reads the system clock, and its errors may repeat parts of a token.
_SIGNATURE_ONLY: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


def rules_of(config: NatsBackendConfig) -> TokenRules:
    """The rules for tokens from the settings."""
    return TokenRules(
        issuer=config.jwt_issuer,
        audience=config.jwt_audience,
        leeway_sec=config.jwt_leeway_sec,
        tenant_claim=config.jwt_tenant_claim,
        scope_claim=config.jwt_scope_claim,
    )


class TokenVerifier:
    """Verifies tokens; a cached one costs a dictionary lookup."""

    def __init__(self, keys: TokenKeys, rules: TokenRules, clock: Clock, *, most: int = MAX_REMEMBERED) -> None:
        self._keys = keys
        self._rules = rules
        self._clock = clock
        self._most = most
        self._remembered: OrderedDict[str, Admitted] = OrderedDict()
        self._version = keys.version

    def __len__(self) -> int:
        """How many tokens are cached."""
        return len(self._remembered)

    def caller_of(self, token: str) -> Caller:
        """The caller that the token identifies, or `InvalidToken`."""
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidToken(f"the token has more than {MAX_TOKEN_CHARS} characters", reason="too long")
        self._forget_others()
        now = self._clock.now()
        known = self._remembered.get(token)
        if known is not None and now < known.until:
            self._remembered.move_to_end(token)
            return known.caller
        admitted = admitted_by(self._claims(token), self._rules, now)
        self._remembered[token] = admitted
        if len(self._remembered) > self._most:
            self._remembered.popitem(last=False)
        return admitted.caller

    def _forget_others(self) -> None:
        """Drop cached tokens when the keys have changed."""
        self._keys.refresh()
        if self._keys.version != self._version:
            self._version = self._keys.version
            self._remembered.clear()

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            header = jwt.get_unverified_header(token)
            found = self._keys.find(_key_id(header))
            if header.get("alg") != found.algorithm:
                raise InvalidToken(f"the token must be signed with {found.algorithm}", reason="algorithm")
            return jwt.decode(token, found.key, algorithms=[found.algorithm], options=_SIGNATURE_ONLY)
        except jwt.InvalidSignatureError as error:
            raise InvalidToken("the token's signature is wrong", reason="signature") from error
        # Other messages of the library may repeat parts of a hostile token.
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            raise InvalidToken("the token cannot be read", reason="not a token") from error


def _key_id(header: dict[str, Any]) -> object:
    """The key id of the token; rejects headers that choose more than that."""
    followed = next((name for name in _NOT_FOLLOWED if name in header), None)
    if followed is not None:
        raise InvalidToken(f"a token with the header {followed!r} is not accepted", reason="header")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise InvalidToken("the token's typ is not JWT", reason="typ")
    return header.get("kid")
