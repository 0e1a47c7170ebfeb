"""API keys: their form, their stored record, and verification."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.auth.api_keys import (
    KeyId,
    Pepper,
    check,
    from_plain,
    key_id_in,
    parse_key_id,
    parse_name,
    to_plain,
    write_key,
)
from pyoco_server.domain.auth.scopes import Scope
from pyoco_server.errors import InvalidApiKey, InvalidUsage
from support.callers import KEY, KEY_ID, SECRET, key_record

NO_PEPPER = Pepper("")


def test_a_new_key_is_parsed_with_its_id() -> None:
    ids = SystemIds()
    for _ in range(200):
        key_id = ids.key_id()

        assert key_id_in(write_key(key_id, ids.key_secret())) == key_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pyoco",
        f"pyoco_{KEY_ID}",
        f"pyoco_{KEY_ID}_",
        f"pyoco_{KEY_ID}_{'é' * 43}",
        f"{KEY}s",
        KEY[:-1],
        KEY.upper(),
        f" {KEY}",
        f"{KEY}\n",
        KEY.replace("0123", "012_"),
        KEY.replace("pyoco", "other"),
        "x" * 100_000,
    ],
    ids=lambda text: repr(text[:40]),
)
def test_any_other_text_is_no_key(text: str) -> None:
    assert key_id_in(text) is None


def test_a_key_grants_the_tenant_and_scopes_of_its_record() -> None:
    caller = check(KEY, key_record(), NO_PEPPER, now=200.0)

    assert (caller.name, caller.api_key_id, caller.tenant_id) == (KEY_ID, KEY_ID, "team-a")
    assert caller.may(Scope.RUNS_WRITE)
    assert not caller.may(Scope.WHEELS_WRITE)


def test_an_expired_key_is_refused_from_its_expiry() -> None:
    record = key_record(expires_at=300.0)

    assert check(KEY, record, NO_PEPPER, now=299.9).tenant_id == "team-a"
    with pytest.raises(InvalidApiKey, match="expired"):
        check(KEY, record, NO_PEPPER, now=300.0)


def test_a_revoked_key_is_refused_as_revoked() -> None:
    with pytest.raises(InvalidApiKey, match="revoked"):
        check(KEY, key_record(revoked_at=150.0), NO_PEPPER, now=200.0)


@pytest.mark.parametrize("digest", [None, NO_PEPPER.digest("another"), "", key_record(pepper="salt and more").digest])
@pytest.mark.parametrize("changed", [{}, {"revoked_at": 150.0}, {"expires_at": 150.0}])
def test_without_the_secret_the_refusal_reveals_nothing_about_the_key(
    digest: str | None, changed: dict[str, Any]
) -> None:
    stored = None if digest is None else key_record(digest=digest, **changed)

    with pytest.raises(InvalidApiKey) as refused:
        check(KEY, stored, NO_PEPPER, now=200.0)

    assert refused.value.detail == InvalidApiKey.message()


def test_a_key_made_with_another_pepper_is_refused_with_a_reason_for_the_log() -> None:
    for made, used in (("pepper one", "pepper two"), ("", "pepper two"), ("pepper one", "")):
        with pytest.raises(InvalidApiKey) as refused:
            check(KEY, key_record(pepper=made), Pepper(used), now=200.0)

        assert "PYOCO_AUTH_PEPPER" in str(refused.value.facts["reason"])
        assert "PYOCO_AUTH_PEPPER" not in refused.value.detail
    assert check(KEY, key_record(pepper="pepper one"), Pepper("pepper one"), now=200.0).name == KEY_ID


def test_stored_and_public_forms_contain_neither_key_nor_pepper() -> None:
    record = key_record(pepper="pepper one")

    for text in (str(to_plain(record)), repr(record), repr(Pepper("pepper one"))):
        assert SECRET not in text
        assert "pepper one" not in text
    assert record.digest not in repr(record)
    assert to_plain(record)["scheme"] == "hmac-sha256"
    assert to_plain(key_record())["scheme"] == "sha256"


def test_the_digest_belongs_to_one_key_id() -> None:
    other = key_record(key_id=KeyId("f" * 16))

    with pytest.raises(InvalidApiKey):
        check(KEY, key_record(digest=other.digest), NO_PEPPER, now=200.0)


def test_a_record_survives_storage() -> None:
    record = key_record(pepper="p", name="ci", expires_at=5.0, revoked_at=4.0)

    assert from_plain(to_plain(record)) == record


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant_id": None},
        {"tenant_id": ""},
        {"tenant_id": 7},
        {"digest": None},
        {"expires_at": "x"},
        {"revoked_at": []},
    ],
    ids=repr,
)
def test_an_invalid_record_is_none(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        from_plain(to_plain(key_record()) | changed)


def test_an_unknown_scope_grants_nothing() -> None:
    plain = to_plain(key_record()) | {"scopes": ["runs:read", "moons:land"]}

    assert from_plain(plain).scopes == {Scope.RUNS_READ}


@pytest.mark.parametrize("text", ["", "abc", KEY, "0123456789ABCDEF", "0123456789abcdef\n"])
def test_an_invalid_key_id_is_refused_and_not_echoed(text: str) -> None:
    with pytest.raises(InvalidUsage) as refused:
        parse_key_id(text)

    assert SECRET not in refused.value.detail


@pytest.mark.parametrize("name", ["", "x" * 129, "two\nlines"])
def test_a_name_is_one_printable_line(name: str) -> None:
    with pytest.raises(InvalidUsage):
        parse_name(name)
