"""The public keys of a token issuer, from a JWKS or a PEM file: RSA (RS256) and P-256 (ES256), and nothing else.

The algorithm belongs to the key, never to the token that is checked with it. A file is looked at once a second and read
again when it has changed, so that keys rotate without a restart; an unusable file then changes nothing.
"""

from __future__ import annotations

import logging
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
from pyoco_server.errors import InvalidToken, InvalidUsage
from pyoco_server.ports import Clock

logger = logging.getLogger(__name__)

LOOK_EVERY_SEC = 1.0
MAX_FILE_BYTES = 1024 * 1024
MAX_KEYS = 100
# NIST SP 800-131A: shorter ones are not acceptable any more.
SMALLEST_RSA_BITS = 2048
_PRIVATE_PARTS = ("d", "k")


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
        self._looked_at = clock.monotonic()
        self._stamp = self._look()
        self._keys = self._load()
        self.version = 1

    @classmethod
    def of(cls, config: NatsBackendConfig, clock: Clock) -> TokenKeys:
        """The keys that the settings name; a file that cannot be used is refused now, and not at the first token."""
        if config.jwt_jwks_file:
            return cls(Path(config.jwt_jwks_file), read_jwks, clock)
        return cls(Path(config.jwt_pem_file), read_pem, clock)

    def refresh(self) -> None:
        """Read the file again if it has changed; it is not looked at more than once a second."""
        now = self._clock.monotonic()
        if now - self._looked_at < LOOK_EVERY_SEC:
            return
        self._looked_at = now
        stamp = self._look()
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
        """The key that a token names; a token that names none means the only one there is."""
        found = self._keys.get(None) or (self._keys.get(key_id) if isinstance(key_id, str) else None)
        if found is None and key_id is None and len(self._keys) == 1:
            (found,) = self._keys.values()
        if found is None:
            raise InvalidToken("the token is signed with a key that is not known here", reason="unknown kid")
        return found

    def _look(self) -> tuple[int, int, int] | None:
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
