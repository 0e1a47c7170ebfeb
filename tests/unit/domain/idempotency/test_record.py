"""Records ⇄ JSON: a round trip loses nothing, and any other JSON is not a record."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.domain.idempotency.record import Answer, Record, from_plain, to_plain
from pyoco_server.domain.ids import CommitId

OPEN = Record(
    idempotency_key="k-1",
    endpoint="POST /runs",
    request_hash="sha256:00",
    holder="h-1",
    lease_until=5.0,
    commit_id=CommitId("c-1"),
    resource_id="r-1",
)
DONE = replace(
    OPEN,
    answer=Answer(
        status=201,
        media_type="application/json",
        body='{"é":1}'.encode(),
        headers=(("location", "/runs/r-1"),),
        event_ids=("c-1.0", "c-1.1"),
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NAMES = list(to_plain(DONE))


def test_a_finished_record_has_the_names_of_the_contract() -> None:
    assert orjson.loads(orjson.dumps(to_plain(DONE))) == {
        "schemaVersion": 1,
        "idempotencyKey": "k-1",
        "endpoint": "POST /runs",
        "requestHash": "sha256:00",
        "holder": "h-1",
        "leaseUntil": 5.0,
        "commitId": "c-1",
        "resourceId": "r-1",
        "status": 201,
        "mediaType": "application/json",
        "responsePayload": '{"é":1}',
        "headers": [["location", "/runs/r-1"]],
        "emittedEventIds": ["c-1.0", "c-1.1"],
    }


@given(st.binary(), st.none() | st.text(), st.integers(100, 599), st.lists(st.text()))
def test_a_record_survives_storage(body: bytes, media_type: str | None, status: int, events: list[str]) -> None:
    answer = Answer(status=status, body=body, media_type=media_type, event_ids=tuple(events))

    for record in (OPEN, DONE, replace(OPEN, answer=answer)):
        assert from_plain(orjson.loads(orjson.dumps(to_plain(record)))) == record


@pytest.mark.parametrize("name", [name for name in NAMES if name != "status"])
def test_an_incomplete_record_is_none(name: str) -> None:
    plain = to_plain(DONE)
    del plain[name]

    assert from_plain(plain) is None


def test_a_record_of_a_later_version_is_none() -> None:
    assert from_plain(to_plain(DONE) | {"schemaVersion": 2}) is None


def test_a_body_that_is_no_base64_is_none() -> None:
    plain = to_plain(replace(OPEN, answer=Answer(status=200, body=b"\xff")))

    assert from_plain(plain) is not None
    assert from_plain(plain | {"responsePayloadBase64": "*"}) is None


@given(JSON | st.dictionaries(st.sampled_from(NAMES), JSON), st.sampled_from(NAMES), JSON)
def test_reading_arbitrary_json_does_not_raise(stored: Any, name: str, value: Any) -> None:
    for plain in (stored, to_plain(DONE) | {name: value}):
        record = from_plain(plain)
        assert record is None or isinstance(record, Record)
