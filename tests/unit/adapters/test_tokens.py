"""Verification of bearer tokens: forged ones, and the cache of valid ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from pyoco_server.adapters.jwt import MAX_TOKEN_CHARS, TokenKeys, TokenVerifier, read_jwks, read_pem
from pyoco_server.errors import InvalidToken
from support.callers import (
    EC_KEY,
    OTHER_RSA_KEY,
    RSA_KEY,
    RULES,
    PrivateKey,
    claims_at,
    jwk_of,
    jwks_of,
    pem_of,
    token_of,
)
from support.clocks import ManualClock

NOW = 1_000_000.0
CLAIMS = claims_at(NOW)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def by_jwks(tmp_path: Path, clock: ManualClock) -> TokenVerifier:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks_of(rsa=RSA_KEY, ec=EC_KEY))
    return TokenVerifier(TokenKeys(file, read_jwks, clock), RULES, clock, most=3)


@pytest.fixture
def by_pem(tmp_path: Path, clock: ManualClock) -> TokenVerifier:
    file = tmp_path / "key.pem"
    file.write_bytes(pem_of(RSA_KEY))
    return TokenVerifier(TokenKeys(file, read_pem, clock), RULES, clock)


def signed_by_hand(header: dict[str, Any], claims: object, sign: Callable[[bytes], bytes]) -> str:
    parts = [base64.urlsafe_b64encode(orjson.dumps(part)).rstrip(b"=") for part in (header, claims)]
    text = b".".join(parts)
    return (text + b"." + base64.urlsafe_b64encode(sign(text)).rstrip(b"=")).decode()


def hmac_with(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda text: hmac.digest(secret, text, hashlib.sha256)


@pytest.mark.parametrize(("key", "kid"), [(RSA_KEY, "rsa"), (EC_KEY, "ec")])
def test_a_token_of_the_issuer_is_accepted(by_jwks: TokenVerifier, key: PrivateKey, kid: str) -> None:
    caller = by_jwks.caller_of(token_of(CLAIMS, key, headers={"kid": kid}))

    assert (caller.name, caller.tenant_id) == ("ann", "team-a")


def test_a_token_without_a_key_id_is_accepted_if_there_is_one_key(by_pem: TokenVerifier) -> None:
    assert by_pem.caller_of(token_of(CLAIMS)).name == "ann"
    assert by_pem.caller_of(token_of(CLAIMS, headers={"kid": "whatever"})).name == "ann"
    assert by_pem.caller_of(token_of(CLAIMS, headers={"typ": "at+jwt"})).name == "ann"


FORGED = {
    "no signature": jwt.encode(CLAIMS, "", algorithm="none", headers={"kid": "rsa"}),
    "none in other letters": signed_by_hand({"alg": "nOnE", "kid": "rsa"}, CLAIMS, lambda _: b""),
    "the public key as a shared secret": signed_by_hand(
        {"alg": "HS256", "kid": "rsa", "typ": "JWT"}, CLAIMS, hmac_with(pem_of(RSA_KEY))
    ),
    "an empty shared secret": signed_by_hand({"alg": "HS256", "kid": "rsa"}, CLAIMS, hmac_with(b"")),
    "another key of the right name": token_of(CLAIMS, OTHER_RSA_KEY, headers={"kid": "rsa"}),
    "an unknown key": token_of(CLAIMS, OTHER_RSA_KEY, headers={"kid": "other"}),
    "no name where there are two keys": token_of(CLAIMS),
    "the name of a key of another kind": token_of(CLAIMS, RSA_KEY, headers={"kid": "ec"}),
    "another strength of the right kind": jwt.encode(CLAIMS, RSA_KEY, algorithm="RS512", headers={"kid": "rsa"}),
    "the other padding": jwt.encode(CLAIMS, RSA_KEY, algorithm="PS256", headers={"kid": "rsa"}),
    "a key that it brings along": token_of(
        CLAIMS, OTHER_RSA_KEY, headers={"kid": "rsa", "jwk": jwk_of(OTHER_RSA_KEY, "rsa")}
    ),
    "the address of a key": token_of(CLAIMS, RSA_KEY, headers={"kid": "rsa", "jku": "https://evil.example/jwks"}),
    "a certificate that it brings along": token_of(CLAIMS, RSA_KEY, headers={"kid": "rsa", "x5c": ["MIIB"]}),
    "rules that must be understood": token_of(CLAIMS, RSA_KEY, headers={"kid": "rsa", "crit": ["exp"]}),
    "another type": token_of(CLAIMS, RSA_KEY, headers={"kid": "rsa", "typ": "dpop+jwt"}),
    "a type that is no text": signed_by_hand({"alg": "RS256", "kid": "rsa", "typ": 7}, CLAIMS, lambda _: b"x"),
    "a path as a name": token_of(CLAIMS, RSA_KEY, headers={"kid": "../../dev/null"}),
    "a query as a name": token_of(CLAIMS, RSA_KEY, headers={"kid": "' OR 1=1 --"}),
    "a name that is no text": signed_by_hand({"alg": "RS256", "kid": ["rsa"]}, CLAIMS, lambda _: b"x"),
    "no algorithm": signed_by_hand({"kid": "rsa"}, CLAIMS, lambda _: b"x"),
    "claims that are a list": signed_by_hand({"alg": "RS256", "kid": "rsa"}, [], lambda _: b"x"),
    "a header that is a list": signed_by_hand([], CLAIMS, lambda _: b"x"),  # type: ignore[arg-type]
    "a signature of zeros": signed_by_hand({"alg": "ES256", "kid": "ec"}, CLAIMS, lambda _: b"\0" * 64),
    "nothing": "",
    "dots": "..",
    "four parts": "a.b.c.d",
    "five parts": "a.b.c.d.e",
    "not ASCII": "é.é.é",
    "a lone surrogate": "\ud800.a.b",
    "too long": "a" * (MAX_TOKEN_CHARS + 1),
    "a deep header": base64.urlsafe_b64encode(b"[" * 5000).decode() + ".e30.AA",
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_token_is_refused_and_not_echoed(by_jwks: TokenVerifier, how: str) -> None:
    token = FORGED[how]

    with pytest.raises(InvalidToken) as refused:
        by_jwks.caller_of(token)

    assert len(token) < 20 or token not in f"{refused.value.detail} {refused.value.facts}"
    assert len(by_jwks) == 0


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_token_with_a_changed_part_is_refused(by_jwks: TokenVerifier, part: int) -> None:
    parts = token_of(CLAIMS, headers={"kid": "rsa"}).split(".")
    middle = len(parts[part]) // 2
    other = "A" if parts[part][middle] != "A" else "B"
    parts[part] = parts[part][:middle] + other + parts[part][middle + 1 :]

    with pytest.raises(InvalidToken):
        by_jwks.caller_of(".".join(parts))


def test_another_curve_is_rejected(by_jwks: TokenVerifier) -> None:
    token = jwt.encode(CLAIMS, ec.generate_private_key(ec.SECP384R1()), algorithm="ES384", headers={"kid": "ec"})

    with pytest.raises(InvalidToken):
        by_jwks.caller_of(token)


def test_a_cached_token_still_expires(by_pem: TokenVerifier, clock: ManualClock) -> None:
    token = token_of(claims_at(NOW, exp=NOW + 60))
    by_pem.caller_of(token)
    clock.pass_time(89)
    assert by_pem.caller_of(token).name == "ann"

    clock.pass_time(1)

    with pytest.raises(InvalidToken, match="expired"):
        by_pem.caller_of(token)


def test_the_cache_is_bounded_and_drops_the_least_recently_used(by_jwks: TokenVerifier) -> None:
    tokens = [token_of(claims_at(NOW, sub=name), headers={"kid": "rsa"}) for name in "abcd"]
    for token in tokens[:3]:
        by_jwks.caller_of(token)
    first = by_jwks.caller_of(tokens[0])

    by_jwks.caller_of(tokens[3])

    assert len(by_jwks) == 3
    assert by_jwks.caller_of(tokens[0]) is first
    assert [by_jwks.caller_of(token).name for token in tokens] == ["a", "b", "c", "d"]


def test_a_cached_token_is_rejected_when_its_key_is_removed(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "jwks.json"
    file.write_bytes(jwks_of(old=RSA_KEY))
    tokens = TokenVerifier(TokenKeys(file, read_jwks, clock), RULES, clock)
    old, new = token_of(CLAIMS, headers={"kid": "old"}), token_of(CLAIMS, OTHER_RSA_KEY, headers={"kid": "new"})
    tokens.caller_of(old)
    file.write_bytes(jwks_of(new=OTHER_RSA_KEY, ec=EC_KEY))
    assert tokens.caller_of(old).name == "ann"  # the file is checked at most once per second

    clock.pass_time(1)

    assert tokens.caller_of(new).name == "ann"
    with pytest.raises(InvalidToken):
        tokens.caller_of(old)
