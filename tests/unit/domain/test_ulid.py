"""ULIDs: the spelling of 128 bits, in both directions."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.adapters.system import SystemIds
from pyoco_server.domain.ulid import parse_ulid, ulid_of, uuid_of

LAST = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"


@given(st.uuids())
def test_a_uuid_and_its_ulid_are_the_same_bits(uuid: UUID) -> None:
    ulid = ulid_of(str(uuid))

    assert parse_ulid(ulid) == parse_ulid(ulid.lower()) == ulid
    assert uuid_of(ulid) == str(uuid)


@given(st.lists(st.integers(0, 2**128 - 1), min_size=2, max_size=2))
def test_ulids_sort_as_their_bits(bits: list[int]) -> None:
    first, second = (ulid_of(f"{number:032x}") for number in bits)

    assert (first < second) == (bits[0] < bits[1])


@pytest.mark.parametrize("text", ["", LAST[:-1], LAST + "0", "8" + LAST[1:], "I" * 26, "ſ" * 26, " " * 26, "０" * 26])
def test_other_texts_are_no_ulids(text: str) -> None:
    assert parse_ulid(text) is None


def test_the_extremes_are_ulids() -> None:
    assert ulid_of("f" * 32) == LAST
    assert ulid_of("0" * 32) == "0" * 26


def test_ids_of_requests_are_ulids_that_sort_by_time() -> None:
    ids = SystemIds()

    made = [ids.request_id() for _ in range(5000)]

    assert made == sorted(set(made))
    assert [parse_ulid(one) for one in made] == made
