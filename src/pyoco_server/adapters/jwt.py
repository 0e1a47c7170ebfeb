"""Verifies bearer tokens (JWT): signature, then claims; valid tokens are cached until they expire.

Keys come from a JWKS or a PEM file: RSA (RS256) and P-256 (ES256) only. The algorithm belongs to the key: a token's own
choice of algorithm or key source is never followed. A changed file is read again within a second, so that keys rotate
without a restart; an unusable file changes nothing.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.auth.caller import Caller
from pyoco_server.domain.auth.claims import Admitted, TokenRules, admitted_by
from pyoco_server.errors import InvalidToken, InvalidUsage
from pyoco_server.ports import Clock

logger = logging.getLogger(__name__)

CHECK_EVERY_SEC = 1.0
MAX_FILE_BYTES = 1024 * 1024
MAX_KEYS = 100
# NIST SP 800-131A: shorter ones are not acceptable any more.
SMALLEST_RSA_BITS = 2048
_PRIVATE_PARTS = ("d", "k")
MAX_TOKEN_CHARS = 8192
MAX_REMEMBERED = 4096
# `at+jwt` is what RFC 9068 calls an access token.
_TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")
# Each of them would take the key, or the rules, from the token itself.
_NOT_FOLLOWED = ("jwk", "jku", "x5c", "x5u", "crit", "b64", "zip", "enc")
# The claims are checked by our own rules: PyJWT reads the system clock, and its errors may repeat parts of a token.
_SIGNATURE_ONLY: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


@dataclass(frozen=True, slots=True)
class TokenKey:
    """One key and the one algorithm it is for."""

    key: RSAPublicKey | EllipticCurvePublicKey = field(repr=False)
    algorithm: str


KeySet = Mapping[str | None, TokenKey]


class TokenKeys:
    """The keys in a file. `version` rises when they change."""

    def __init__(self, path: Path, read: Callable[[bytes], KeySet], clock: Clock) -> None:
        self._path = path
        self._read = read
        self._clock = clock
        self._checked_at = clock.monotonic()
        self._stamp = self._stat()
        self._keys = self._load()
        self.version = 1

    @classmethod
    def of(cls, config: NatsBackendConfig, clock: Clock) -> TokenKeys:
        """The keys that the settings name; an unusable file is rejected at the start."""
        if config.jwt_jwks_file:
            return cls(Path(config.jwt_jwks_file), read_jwks, clock)
        return cls(Path(config.jwt_pem_file), read_pem, clock)

    def refresh(self) -> None:
        """Read the file again if it has changed; checks at most once a second."""
        now = self._clock.monotonic()
        if now - self._checked_at < CHECK_EVERY_SEC:
            return
        self._checked_at = now
        stamp = self._stat()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._keys = self._load()
        except InvalidUsage as error:
            logger.error("token keys not reloaded", extra={"reason": error.detail})  # noqa: TRY400 - no bug
            return
        self.version += 1
        logger.info("token keys reloaded", extra={"keys": len(self._keys)})

    def find(self, key_id: object) -> TokenKey:
        """The key that a token names; without a name the only key."""
        found = self._keys.get(None) or (self._keys.get(key_id) if isinstance(key_id, str) else None)
        if found is None and key_id is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            raise InvalidToken("the token is signed with a key that is not known here", reason="unknown kid")
        return found

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _load(self) -> KeySet:
        try:
            with self._path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise InvalidUsage(f"cannot read the keys for tokens in {self._path}: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise InvalidUsage(f"{self._path} has more than {MAX_FILE_BYTES} bytes, which no set of keys needs")
        try:
            return self._read(data)
        except InvalidUsage as error:
            raise InvalidUsage(f"{self._path}: {error.detail}") from error


def read_pem(data: bytes) -> KeySet:
    """The one key of a PEM file, for tokens with any key id or none."""
    if b"PRIVATE KEY" in data:
        raise InvalidUsage("this is a private key; give the gateway the public one only")
    try:
        found = _usable(load_pem_public_key(data))
    except (ValueError, UnsupportedAlgorithm):
        found = None
    if found is None:
        raise InvalidUsage("accepted: a PEM public key, RSA of at least 2048 bits or P-256 (BEGIN PUBLIC KEY)")
    return {None: found}


def read_jwks(data: bytes) -> KeySet:
    """The keys of a JWKS by their ids; those for other purposes are left out."""
    try:
        listed = orjson.loads(data)["keys"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        listed = None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise InvalidUsage(f'accepted: a JWKS, {{"keys": [...]}}, with at most {MAX_KEYS} keys')
    keys: dict[str | None, TokenKey] = {}
    for plain in listed:
        name, found = _read_jwk(plain)
        if found is None:
            logger.warning("unusable token key ignored", extra={"kid": name})
        elif name in keys:
            raise InvalidUsage(f"there are two keys with the kid {name!r}")
        else:
            keys[name] = found
    if not keys:
        raise InvalidUsage("there is no key in it that can be used: RSA of at least 2048 bits or P-256, with a kid")
    return keys


def _read_jwk(plain: Any) -> tuple[str, TokenKey | None]:
    if not isinstance(plain, dict) or not isinstance(plain.get("kid"), str):
        return "", None
    name: str = plain["kid"]
    if any(part in plain for part in _PRIVATE_PARTS):
        raise InvalidUsage(f"the key {name!r} is a secret one; give the gateway public keys only")
    purposes = plain.get("key_ops", ["verify"])
    if plain.get("use", "sig") != "sig" or not isinstance(purposes, list) or "verify" not in purposes:
        return name, None
    try:
        found = _usable(jwt.PyJWK(plain).key)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return name, None
    return name, found if found is not None and plain.get("alg", found.algorithm) == found.algorithm else None


def _usable(key: object) -> TokenKey | None:
    if isinstance(key, RSAPublicKey) and key.key_size >= SMALLEST_RSA_BITS:
        return TokenKey(key, "RS256")
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return TokenKey(key, "ES256")
    return None


def rules_of(config: NatsBackendConfig) -> TokenRules:
    return TokenRules(
        issuer=config.jwt_issuer,
        audiences=config.jwt_audiences,
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
        return len(self._remembered)

    def caller_of(self, token: str) -> Caller:
        """The caller that the token identifies, or `InvalidToken`."""
        if len(token) > MAX_TOKEN_CHARS:
            raise InvalidToken(f"the token has more than {MAX_TOKEN_CHARS} characters", reason="too long")
        self._keys.refresh()
        if self._keys.version != self._version:
            self._version = self._keys.version
            self._remembered.clear()
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
