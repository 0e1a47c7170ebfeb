"""Lists of jobs: the order of ids, and page tokens that are valid for the same list only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.queries.jobs import JobQuery, LabelQuery, _about, order_of, run_id_of
from pyoco_server.domain.queries.jobs import decode_token as decode
from pyoco_server.domain.queries.jobs import encode_token as encode
from pyoco_server.domain.queries.page_token import MAX_TOKEN_CHARS, seal
from pyoco_server.domain.queries.query import labels_of, terms_of
from pyoco_server.errors import InvalidListQuery
from support.indexes import A

TEXTS = st.text(st.characters(codec="utf-8"), max_size=130)
OURS = st.uuids().map(str)
JOBS = JobQuery(labels=("a", "b"), status=("PENDING", "RUNNING"), tenant_id="acme")
LABELS = LabelQuery(prefix="team:", tenant_id="acme")


@given(run_id=OURS | TEXTS)
def test_an_id_is_restored_from_its_sort_key(run_id: str) -> None:
    assert run_id_of(order_of(run_id)) == run_id


@given(one=OURS, other=OURS)
def test_uuid_v7_ids_sort_by_their_text(one: str, other: str) -> None:
    assert (order_of(one) < order_of(other)) is (one < other)


@given(ours=OURS.filter(lambda run_id: not run_id.startswith("00000000")), foreign=TEXTS)
def test_other_ids_sort_before_uuid_v7_ids(ours: str, foreign: str) -> None:
    assert order_of(foreign) < order_of(ours)


@given(labels=st.lists(TEXTS), digest=st.none() | st.just("ab" * 32))
def test_labels_are_restored_from_the_terms_without_the_yaml(labels: list[str], digest: str | None) -> None:
    assert labels_of(terms_of(labels, digest)) == sorted(set(labels))


@given(text=TEXTS)
@pytest.mark.parametrize("query", [JOBS, LABELS])
def test_a_page_position_survives_a_round_trip(query: JobQuery | LabelQuery, text: str) -> None:
    assert decode(encode(text, query), query) == text


def test_limit_position_and_order_of_filters_may_change_between_pages() -> None:
    same = JobQuery(labels=("b", "a", "b"), status=("RUNNING", "PENDING"), tenant_id="acme", limit=3, before=A)
    later = LabelQuery(prefix="team:", tenant_id="acme", after="team:a", limit=3)

    assert decode(encode(A, JOBS), same) == A
    assert decode(encode("team:b", LABELS), later) == "team:b"


@pytest.mark.parametrize(
    ("made_for", "other"),
    [
        (JOBS, JobQuery(labels=("a",), status=("PENDING", "RUNNING"), tenant_id="acme")),
        (JOBS, JobQuery(labels=("a", "b"), status=("PENDING",), tenant_id="acme")),
        (JOBS, JobQuery(labels=("a", "b"), status=("PENDING", "RUNNING"))),
        (LABELS, LabelQuery(prefix="team", tenant_id="acme")),
        (LABELS, LabelQuery(prefix="team:")),
        (JobQuery(), LabelQuery()),
        (LabelQuery(), JobQuery()),
    ],
)
def test_a_token_of_another_list_is_refused(made_for: JobQuery | LabelQuery, other: JobQuery | LabelQuery) -> None:
    with pytest.raises(InvalidListQuery, match="nextToken: it is damaged, or was made with other filters"):
        decode(encode(A, made_for), other)


def test_a_token_that_is_too_long_or_not_a_text_is_refused() -> None:
    with pytest.raises(InvalidListQuery, match="characters"):
        decode("a" * (MAX_TOKEN_CHARS + 1), JOBS)
    with pytest.raises(InvalidListQuery, match="not made by this server"):
        decode(seal(7, about=_about(JOBS)), JOBS)


def test_the_token_of_the_longest_label_is_short_enough() -> None:
    longest = "\U0001f600" * 128

    assert decode(encode(longest, LABELS), LABELS) == longest
