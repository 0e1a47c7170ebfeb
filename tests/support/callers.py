"""API keys and tokens for tests: real ones, made with keys of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from pyoco_server.bootstrap import open_api_keys
from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.api_keys import ApiKey, KeyId, Pepper, write_key
from pyoco_server.domain.auth.claims import TokenRules
from pyoco_server.domain.auth.scopes import USUAL_SCOPES, Scope

SECRET = "s" * 43
KEY_ID = KeyId("0123456789abcdef")
KEY = write_key(KEY_ID, SECRET)


def key_record(*, pepper: str = "", **changed: Any) -> ApiKey:
    """The record of a key with this secret; without a pepper by default."""
    key_id = changed.get("key_id", KEY_ID)
    record = ApiKey(
        key_id=key_id,
        tenant_id="team-a",
        scopes=USUAL_SCOPES,
        created_at=100.0,
        pepper_id=Pepper(pepper).fingerprint,
        digest=Pepper(pepper).digest(write_key(key_id, SECRET)),
    )
    return replace(record, **changed)


RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

ISSUER, AUDIENCE = "https://issuer.example", "pyoco"
RULES = TokenRules(issuer=ISSUER, audiences=frozenset({AUDIENCE}))


def pem_of(key: PrivateKey) -> bytes:
    """The public key, as an issuer publishes it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk_of(key: PrivateKey, kid: str, **more: Any) -> dict[str, Any]:
    algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
    plain: dict[str, Any] = algorithm.to_jwk(key.public_key(), as_dict=True)
    return {**plain, "kid": kid, "use": "sig"} | more


def jwks_of(**keys: PrivateKey) -> bytes:
    return orjson.dumps({"keys": [jwk_of(key, kid) for kid, key in keys.items()]})


def claims_at(now: float, **changed: Any) -> dict[str, Any]:
    """Claims that are valid at that time; values of None are omitted."""
    plain = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "tenant": "team-a", "scope": "runs:read runs:write"}
    times = {"iat": now - 10, "exp": now + 600}
    return {name: value for name, value in (plain | times | changed).items() if value is not None}


def token_of(claims: Mapping[str, Any], key: PrivateKey = RSA_KEY, *, headers: dict[str, Any] | None = None) -> str:
    algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
    return jwt.encode(dict(claims), key, algorithm=algorithm, headers=headers)


async def hand_out(config: NatsBackendConfig, tenant: str = "team-a", *scopes: Scope) -> str:
    """A new key, created as an administrator creates it."""
    async with open_api_keys(config) as keys:
        return (await keys.hand_out(tenant, frozenset(scopes) or USUAL_SCOPES)).api_key


def api_key_headers(api_key: str) -> dict[str, str]:
    return {"X-API-Key": api_key}


def bearer_headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
