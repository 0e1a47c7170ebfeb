"""Cursors decode to the position they were made from, for the same list only; anything else is refused."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.queries.cursors import (
    EXECUTIONS,
    MAX_CURSOR_CHARS,
    RUNS,
    Place,
    Tail,
    Walk,
    _about,
    decode,
    encode,
)
from pyoco_server.domain.queries.page_token import _check
from pyoco_server.domain.queries.query import RunQuery
from pyoco_server.errors import InvalidListQuery

QUERY = RunQuery(status="RUNNING", labels=("a", "b"), updated_after=5.0)
STREAM = "2026-01-01T00:00:00Z"
PLACE = Walk(mark=7, before=(1700000000.123456, "0190"))
SEQUENCES = st.integers(0, 2**63 - 1)
IDS = st.text(st.characters(codec="utf-8"), max_size=40)
MOMENTS = st.floats(allow_nan=False, allow_infinity=False)
PLACES: st.SearchStrategy[Place] = st.builds(Walk, mark=SEQUENCES, before=st.tuples(MOMENTS, IDS)) | st.builds(
    Tail, mark=SEQUENCES, after=IDS, upto=IDS
)


@given(place=PLACES)
def test_a_position_survives_a_round_trip(place: Place) -> None:
    assert decode(encode(place, QUERY, STREAM), QUERY, STREAM) == place


@pytest.mark.parametrize(
    "other",
    [
        RunQuery(status="FAILED", labels=("a", "b"), updated_after=5.0),
        RunQuery(status="RUNNING", labels=("a",), updated_after=5.0),
        RunQuery(status="RUNNING", labels=("a", "b"), updated_after=6.0),
        RunQuery(status="RUNNING", labels=("a", "b"), updated_after=5.0, tenant_id="acme"),
        RunQuery(status="RUNNING", labels=("a", "b"), updated_after=5.0, statuses=("RUNNING",)),
        RunQuery(status="RUNNING", labels=("a", "b"), updated_after=5.0, workflow_yaml_sha256="ab" * 32),
    ],
)
def test_a_cursor_of_another_list_is_refused(other: RunQuery) -> None:
    with pytest.raises(InvalidListQuery, match="other filters"):
        decode(encode(PLACE, QUERY, STREAM), other, STREAM)


def test_a_cursor_of_another_bucket_is_refused() -> None:
    with pytest.raises(InvalidListQuery):
        decode(encode(PLACE, QUERY, STREAM), QUERY, "2027-01-01T00:00:00Z")


def test_a_cursor_of_another_route_is_refused() -> None:
    assert decode(encode(PLACE, QUERY, STREAM, EXECUTIONS), QUERY, STREAM, EXECUTIONS) == PLACE
    with pytest.raises(InvalidListQuery):
        decode(encode(PLACE, QUERY, STREAM), QUERY, STREAM, EXECUTIONS)
    with pytest.raises(InvalidListQuery):
        decode(encode(PLACE, QUERY, STREAM, EXECUTIONS), QUERY, STREAM)


def test_the_page_limit_and_the_order_of_labels_may_change_between_pages() -> None:
    same = RunQuery(status="RUNNING", labels=("b", "a"), updated_after=5.0, limit=3)

    assert decode(encode(PLACE, QUERY, STREAM), same, STREAM) == PLACE


def test_the_order_of_statuses_does_not_change_a_cursor() -> None:
    cursor = encode(PLACE, RunQuery(statuses=("PENDING", "RUNNING")), STREAM)

    assert decode(cursor, RunQuery(statuses=("RUNNING", "PENDING", "RUNNING")), STREAM) == PLACE
    with pytest.raises(InvalidListQuery, match="other filters"):
        decode(cursor, RunQuery(statuses=("PENDING", "RUNNING", "CANCELLING")), STREAM)


@given(place=PLACES, at=st.integers(0), bit=st.integers(0, 7))
def test_a_damaged_cursor_is_refused(place: Place, at: int, bit: int) -> None:
    cursor = encode(place, QUERY, STREAM)
    raw = bytearray(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    raw[at % len(raw)] ^= 1 << bit

    with pytest.raises(InvalidListQuery):
        decode(urlsafe_b64encode(raw).decode().rstrip("="), QUERY, STREAM)


@given(text=st.text(max_size=100))
def test_arbitrary_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidListQuery, match="cursor"):
        decode(text, QUERY, STREAM)


def test_a_cursor_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidListQuery, match="characters"):
        decode("a" * (MAX_CURSOR_CHARS + 1), QUERY, STREAM)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b'[["w"]]',
        b'[["w",-1,[1.0,"a"]]]',
        b'[["w",9223372036854775808,[1.0,"a"]]]',
        b'[["w",1,[null,"a"]]]',
        b'[["t",1,2,3]]',
        b'[["x",1,"a","b"]]',
        b"{",
    ],
)
def test_a_forged_cursor_with_a_valid_checksum_is_refused(payload: bytes) -> None:
    cursor = urlsafe_b64encode(_check(payload, _about(QUERY, STREAM, RUNS)) + payload).rstrip(b"=").decode()

    with pytest.raises(InvalidListQuery, match="not made by this server"):
        decode(cursor, QUERY, STREAM)
