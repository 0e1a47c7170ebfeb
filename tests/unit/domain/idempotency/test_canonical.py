"""Canonical JSON: the vectors of RFC 8785, our deviations, and properties for all values."""

from __future__ import annotations

import json
import struct
import unicodedata
from hashlib import sha256
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyoco_server.domain.idempotency.keys import canonical, json_digest, number
from pyoco_server.errors import InvalidRequest

# RFC 8785, appendix B: IEEE 754 bits and their text.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

texts = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def nfc_keys_differ(value: Any) -> bool:
    if isinstance(value, dict):
        normal = {unicodedata.normalize("NFC", key) for key in value}
        return len(normal) == len(value) and all(map(nfc_keys_differ, value.values()))
    return all(map(nfc_keys_differ, value)) if isinstance(value, list) else True


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("bits", "written"), NUMBERS)
def test_numbers_have_the_form_of_the_rfc_table(bits: str, written: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))

    assert number(value) == written
    assert canonical([value]) == f"[{written}]".encode()


def test_the_example_of_the_rfc_has_its_canonical_form() -> None:
    """RFC 8785, §3.2.3, from its text to its bytes."""
    text = r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"""

    assert (
        canonical(orjson.loads(text))
        == (
            '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
            '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
        ).encode()
    )


def test_keys_are_sorted_by_code_units() -> None:
    """RFC 8785, §3.2.3: a smiley, two units beyond U+D800, comes before U+FB01, which has the smaller code point.

    (The RFC's own example has U+FB33 for it, which does not exist in NFC: it becomes two signs of the Hebrew block.)
    """
    shuffled = {"€": "Euro", "\r": "Return", "\ufb01": "fi", "1": "One", "\U0001f600": "Smiley", "\x80": "", "ö": "o"}

    assert list(orjson.loads(canonical(shuffled))) == ["\r", "1", "\x80", "ö", "€", "\U0001f600", "\ufb01"]
    assert list(orjson.loads(canonical({"\ufb33": 1, "€": 2}))) == ["\u05d3\u05bc", "€"]


def test_characters_are_escaped_only_if_json_requires_it() -> None:
    every = "".join(map(chr, range(0x20))) + '"\\/\x7f\u2028'

    written = r'"\u0000\u0001\u0002\u0003\u0004\u0005\u0006\u0007\b\t\n\u000b\f\r\u000e\u000f\u0010\u0011\u0012\u0013'
    written += r"\u0014\u0015\u0016\u0017\u0018\u0019\u001a\u001b\u001c\u001d\u001e\u001f\"\\/" + '\x7f\u2028"'
    assert canonical(every) == written.encode()
    assert canonical(every.rstrip("\u2028")) == written.replace("\u2028", "").encode()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a": 1, "b": [1, 2]}', '{"b":[1.0,2.0],"a":1e0}'),
        ('{"a": -0}', '{"a": 0.0}'),
        ('{"a": 100000000000000000000.0}', '{"a": 1e20}'),
        ('{"café": "é"}', '{"cafe\\u0301": "e\\u0301"}'),
        ('"\\ud83d\\ude00"', '"😀"'),
        ('"\\u212b"', '"Å"'),
    ],
)
def test_equal_values_have_one_digest(one: str, other: str) -> None:
    assert json_digest(orjson.loads(one)) == json_digest(orjson.loads(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854775806"),
        ("[1, 2]", "[2, 1]"),
        ("1", '"1"'),
        ("true", "1"),
        ("false", "0"),
        ("null", "{}"),
        ('{"a": null}', "{}"),
        ("0.1", "0.10000000000000002"),
        ('"ﬁ"', '"fi"'),
        ('{"a":{"b":1}}', '{"a":{},"b":1}'),
    ],
)
def test_different_values_have_different_digests(one: str, other: str) -> None:
    assert json_digest(orjson.loads(one)) != json_digest(orjson.loads(other))


def test_integers_of_64_bits_keep_all_their_digits_beside_any_text() -> None:
    assert canonical([2**64 - 1, -(2**63), "é"]) == f'[{2**64 - 1},{-(2**63)},"é"]'.encode()
    assert canonical([2**64 - 1, -(2**63), "e"]) == f'[{2**64 - 1},{-(2**63)},"e"]'.encode()


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [1, {"a": float("-inf")}],
        [2**64, 0.5],
        [-(2**63) - 1, "é"],
        {"é": 1, "e\u0301": 2},
        {"outer": [{"\u212b": 1, "Å": 1}]},
        "\ud800",
        {"\ud800": "é"},
    ],
    ids=repr,
)
def test_a_value_without_a_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        canonical(value)


def test_a_value_that_is_no_json_is_a_programming_error() -> None:
    with pytest.raises(TypeError):
        canonical({"at": object()})


def test_the_digest_is_that_of_the_canonical_bytes() -> None:
    assert json_digest({"b": 1, "a": 2}) == "sha256:" + sha256(b'{"a":2,"b":1}').hexdigest()


def test_ignored_keys_are_ignored_at_the_top_only() -> None:
    plain = {"trace_id": "t1", "params": {"trace_id": "t2"}}

    assert json_digest(plain, leave_out={"trace_id"}) == json_digest({"params": {"trace_id": "t2"}})
    assert json_digest(plain, leave_out={"trace_id"}) != json_digest({"params": {}}, leave_out={"trace_id"})
    assert json_digest(["trace_id"], leave_out={"trace_id"}) == json_digest(["trace_id"])


@given(values)
def test_any_spelling_of_a_value_has_the_same_canonical_bytes(value: Any) -> None:
    assume(nfc_keys_differ(value))
    written = [
        json.dumps(value, ensure_ascii=True, indent=3),
        json.dumps(reversed_keys(value), ensure_ascii=False),
        json.dumps(value, ensure_ascii=False, separators=("\n,\t", " : ")),
    ]

    assert {canonical(orjson.loads(text)) for text in written} == {canonical(value)}


@given(values)
def test_canonical_bytes_are_equal_json_and_canonicalisation_is_idempotent(value: Any) -> None:
    assume(nfc_keys_differ(value))
    data = canonical(value)

    again = orjson.loads(data)
    assert canonical(again) == data
    meant = unicodedata.normalize("NFC", json.dumps(value, ensure_ascii=False))
    assert json.loads(data, parse_int=float) == json.loads(meant, parse_int=float)


@given(values, values)
def test_digests_are_equal_exactly_if_the_canonical_bytes_are(one: Any, other: Any) -> None:
    assume(nfc_keys_differ(one) and nfc_keys_differ(other))

    assert (json_digest(one) == json_digest(other)) is (canonical(one) == canonical(other))


@given(values)
def test_the_fast_and_the_slow_writer_agree(value: Any) -> None:
    """An additional float forces the slow writer for the whole value."""
    assume(nfc_keys_differ(value))

    assert canonical([value, 0.5]) == b"[" + canonical(value) + b",0.5]"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_a_round_trip(value: float) -> None:
    assert float(number(value)) == value
