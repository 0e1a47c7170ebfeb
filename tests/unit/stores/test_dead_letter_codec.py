"""Decoding of dead letters, which foreign producers may have published."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.stores.dead_letters import MAX_TEXT_CHARS, DeadLetter, decode_dead_letter, encode_dead_letter

LETTER = DeadLetter(
    timestamp=1.5,
    reason="max_deliver",
    error="no flow_name",
    run_id="r",
    flow_name="main",
    tag="gpu",
    tags=("a", "b"),
    worker_id="w",
    num_delivered=5,
    subject="pyoco.work.gpu",
)
BARE = DeadLetter(timestamp=2.5, reason="invalid_job")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)


def changed(**fields: Any) -> bytes:
    return orjson.dumps({**orjson.loads(encode_dead_letter(LETTER)), **fields})


def test_a_letter_survives_storage() -> None:
    assert decode_dead_letter(changed(unknown=1)) == LETTER
    assert decode_dead_letter(encode_dead_letter(BARE)) == BARE


@pytest.mark.parametrize(
    "data",
    [b"", b"no json", b"[]", b"{}", changed(reason=5), changed(timestamp="now"), changed(timestamp=True)],
)
def test_an_invalid_letter_is_none(data: bytes) -> None:
    assert decode_dead_letter(data) is None


def test_fields_of_the_wrong_type_are_ignored() -> None:
    read = decode_dead_letter(changed(run_id={"a": 1}, tag=7, tags=[1], num_delivered=True, error="e" * 20_000))

    assert read is not None
    assert (read.run_id, read.tag, read.tags, read.num_delivered) == (None, None, None, None)
    assert read.error == "e" * MAX_TEXT_CHARS


@given(st.dictionaries(st.sampled_from([*LETTER.__struct_fields__, "x"]), values))
def test_a_decoded_letter_has_the_declared_types(fields: dict[str, Any]) -> None:
    read = decode_dead_letter(changed(**fields))

    if read is not None:
        assert decode_dead_letter(encode_dead_letter(read)) == read
        assert {type(read.run_id), type(read.error), type(read.subject)} <= {str, type(None)}
