"""Files with an issuer's public keys: which keys are usable, and how a changed file is reloaded."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from jwt.algorithms import RSAAlgorithm

from pyoco_server.adapters.jwt import MAX_FILE_BYTES, TokenKeys, read_jwks, read_pem
from pyoco_server.errors import InvalidToken, InvalidUsage
from support.callers import EC_KEY, OTHER_RSA_KEY, RSA_KEY, jwk_of, jwks_of, pem_of
from support.clocks import ManualClock

WEAK_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)
LARGE_EC_KEY = ec.generate_private_key(ec.SECP384R1())
SECRET_PEM = RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
ED_PEM = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwks(*keys: Any) -> bytes:
    return orjson.dumps({"keys": keys})


def test_the_algorithm_belongs_to_the_key() -> None:
    keys = read_jwks(jwks_of(one=RSA_KEY, two=EC_KEY))

    assert {kid: key.algorithm for kid, key in keys.items()} == {"one": "RS256", "two": "ES256"}
    assert read_pem(pem_of(EC_KEY))[None].algorithm == "ES256"


@pytest.mark.parametrize(
    "left_out",
    [
        {"kty": "oct", "kid": "x", "alg": "HS256"},
        jwk_of(RSA_KEY, "x", use="enc"),
        jwk_of(RSA_KEY, "x", key_ops=["encrypt"]),
        jwk_of(RSA_KEY, "x", key_ops=7),
        jwk_of(RSA_KEY, "x", alg="RS512"),
        jwk_of(RSA_KEY, "x", alg="HS256"),
        jwk_of(EC_KEY, "x", alg="RS256"),
        jwk_of(WEAK_RSA_KEY, "x"),
        jwk_of(LARGE_EC_KEY, "x"),
        {"kty": "RSA", "kid": "x", "n": "AQAB"},
        {"kty": "RSA", "kid": "x", "n": 7, "e": []},
        {"kid": "x"},
        {name: value for name, value in jwk_of(RSA_KEY, "x").items() if name != "kid"},
        7,
        None,
    ],
    ids=[
        "symmetric",
        "use",
        "key_ops",
        "bad key_ops",
        "alg of another size",
        "symmetric alg",
        "alg of another kind",
        "weak",
        "curve",
        "no e",
        "bad n and e",
        "no kty",
        "no kid",
        "number",
        "null",
    ],
)
def test_an_unusable_key_is_skipped(left_out: Any) -> None:
    assert list(read_jwks(jwks(left_out, jwk_of(EC_KEY, "good")))) == ["good"]
    with pytest.raises(InvalidUsage, match="no key"):
        read_jwks(jwks(left_out))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"7", b'{"keys": 7}', b'{"keys": {}}', b"\xff", jwks(*[{}] * 101), pem_of(RSA_KEY)],
    ids=lambda data: repr(data[:20]),
)
def test_an_invalid_jwks_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidUsage):
        read_jwks(data)


def test_two_keys_with_the_same_id_are_refused() -> None:
    with pytest.raises(InvalidUsage, match="two keys"):
        read_jwks(jwks(jwk_of(RSA_KEY, "x"), jwk_of(OTHER_RSA_KEY, "x")))


def test_a_secret_key_is_refused_at_any_position() -> None:
    private = RSAAlgorithm.to_jwk(RSA_KEY, as_dict=True) | {"kid": "x"}

    for read, data in ((read_jwks, jwks(private)), (read_jwks, jwks({"kid": "x", "k": "c2VjcmV0"}))):
        with pytest.raises(InvalidUsage, match="secret"):
            read(data)
    with pytest.raises(InvalidUsage, match="private"):
        read_pem(SECRET_PEM)


@pytest.mark.parametrize("data", [b"", b"-----BEGIN", pem_of(WEAK_RSA_KEY), pem_of(LARGE_EC_KEY), ED_PEM, b"\xff\0"])
def test_an_unusable_pem_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidUsage, match="RSA of at least 2048 bits or P-256"):
        read_pem(data)


def test_an_unusable_key_file_prevents_the_start_and_is_named(tmp_path: Path) -> None:
    large = tmp_path / "large.pem"
    large.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    broken = tmp_path / "broken.pem"
    broken.write_bytes(b"broken")

    for file in (tmp_path / "missing.pem", large, broken, tmp_path):
        with pytest.raises(InvalidUsage, match=str(file)):
            TokenKeys(file, read_pem, ManualClock())


def test_a_changed_file_is_reloaded_and_an_invalid_one_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, file = ManualClock(), tmp_path / "jwks.json"
    file.write_bytes(jwks_of(a=RSA_KEY, b=EC_KEY))
    keys = TokenKeys(file, read_jwks, clock)
    with caplog.at_level(logging.ERROR):
        for bad in (b"{", None):
            file.write_bytes(bad) if bad else file.unlink()
            for _ in range(3):
                clock.pass_time(1)
                keys.refresh()
    assert keys.version == 1
    assert keys.find("a").algorithm == "RS256"
    assert len(caplog.records) == 2

    file.write_bytes(jwks_of(c=EC_KEY))
    clock.pass_time(1)
    keys.refresh()

    assert keys.version == 2
    assert keys.find("c") is keys.find(None)
    with pytest.raises(InvalidToken):
        keys.find("a")
