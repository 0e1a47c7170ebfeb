"""Valid idempotency keys, and the storage key of their record."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.idempotency.keys import IdempotencyKey, parse_key, record_key
from pyoco_server.errors import InvalidRequest

fields = st.fixed_dictionaries(
    {
        "tenant_id": st.none() | st.text(max_size=3),
        "method": st.text(max_size=3),
        "path": st.text(max_size=3),
        "key": st.text(max_size=3).map(IdempotencyKey),
    }
)


@pytest.mark.parametrize("text", ["a", "~", "a b", "x" * 255, "8e03978e-40d5-43e8-bc93-6894a57f9324", '"quoted"'])
def test_a_key_is_any_printable_text(text: str) -> None:
    assert parse_key(text) == text


@pytest.mark.parametrize("text", ["", " ", " a", "a ", "x" * 256, "a\tb", "a\n", "é", "鍵", "a\x00b", "\x7f"], ids=repr)
def test_an_invalid_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="1 to 255 printable ASCII characters"):
        parse_key(text)


def test_the_storage_key_of_a_record_is_valid_in_a_bucket() -> None:
    key = record_key(tenant_id="team-a", method="POST", path="/runs?x=1", key=IdempotencyKey("*.> k"))

    assert re.fullmatch(r"[0-9a-f]{64}", key)


@given(fields, fields)
def test_another_tenant_method_path_or_key_is_another_record(one: dict[str, str], other: dict[str, str]) -> None:
    same = (one | {"tenant_id": one["tenant_id"] or ""}) == (other | {"tenant_id": other["tenant_id"] or ""})

    assert (record_key(**one) == record_key(**other)) is same  # type: ignore[arg-type]
