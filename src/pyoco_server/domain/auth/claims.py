"""The claims of a verified token → a caller. Checks no signature and reads no clock."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import msgspec

from pyoco_server.domain.auth.caller import TENANT_WORDS, Caller, is_tenant_id
from pyoco_server.domain.auth.scopes import Scope, known_scopes
from pyoco_server.errors import InvalidToken

MAX_SUBJECT_CHARS = 256

Claims = Mapping[str, object]


class TokenRules(msgspec.Struct, frozen=True, kw_only=True):
    issuer: str
    audiences: frozenset[str]
    leeway_sec: float = 30.0
    tenant_claim: str = "tenant"
    scope_claim: str = "scope"


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """The caller of a token, and until when the token is valid."""

    caller: Caller
    until: float


def admitted_by(claims: Claims, rules: TokenRules, now: float) -> Admitted:
    """The caller of these claims, or `InvalidToken` with the reason."""
    audiences = _audiences(claims, rules)
    expires_at = _time(claims, "exp", required=True)
    until = expires_at + rules.leeway_sec
    begins = max(_time(claims, "nbf"), _time(claims, "iat")) - rules.leeway_sec
    if now >= until:
        raise InvalidToken("the token has expired", reason="expired")
    if now < begins:
        raise InvalidToken("the token is not valid yet; compare the clocks", reason="not yet valid")
    caller = Caller(
        name=_subject(claims),
        tenant_id=_tenant(claims, rules.tenant_claim),
        scopes=_scopes(claims, rules.scope_claim),
        audiences=audiences,
        names_scopes=claims.get(rules.scope_claim) is not None,
        valid_until=expires_at,
    )
    return Admitted(caller=caller, until=until)


def _audiences(claims: Claims, rules: TokenRules) -> frozenset[str]:
    """Which of our audiences the token is for; at least one."""
    if claims.get("iss") != rules.issuer:
        raise InvalidToken("the token's iss is not the issuer that is trusted here", reason="issuer")
    audience = claims.get("aud")
    named = [one for one in (audience if isinstance(audience, list) else [audience]) if isinstance(one, str)]
    found = rules.audiences.intersection(named)
    if not found:
        raise InvalidToken("the token's aud does not name this service", reason="audience")
    return found


def _time(claims: Claims, name: str, *, required: bool = False) -> float:
    value = claims.get(name)
    if value is None and not required:
        return 0.0
    # JSON numbers may be infinite or too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15 or not isfinite(value):
        raise InvalidToken(f"the token needs {name} as a time in seconds", reason=name)
    return float(value)


def _subject(claims: Claims) -> str:
    value = claims.get("sub")
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_SUBJECT_CHARS or not value.isprintable():
        raise InvalidToken(f"the token needs sub, 1 to {MAX_SUBJECT_CHARS} printable characters", reason="sub")
    return value


def _tenant(claims: Claims, name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not is_tenant_id(value):
        raise InvalidToken(f"the token needs the claim {name!r}: {TENANT_WORDS}", reason="tenant")
    return value


def _scopes(claims: Claims, name: str) -> frozenset[Scope]:
    value = claims.get(name)
    words = value.split(" ") if isinstance(value, str) else value
    if not isinstance(words, list):
        return frozenset()  # a known caller without permissions: requests fail with the missing scope
    return known_scopes(word for word in words if isinstance(word, str))
