"""The stored form of log chunks, which stays readable for ever."""

from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.ids import RunId
from pyoco_server.domain.queries.page_token import _check
from pyoco_server.domain.run_logs import codec, tokens
from pyoco_server.domain.run_logs.lines import LEVELS, STREAMS, LogLine, chunk_of
from pyoco_server.domain.run_logs.tokens import LogPosition
from pyoco_server.errors import InvalidLogQuery

RUN = RunId("0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11")
# A chunk as stored by version 1. It never changes.
STORED = (
    b'{"v":1,"attempt":2,"line":11,"byte":120,"bytes":16,"prev":7,"at":1700000000.5,"us":[0,250000,250001],'
    b'"tasks":["load",null],"kinds":[[2,0,0,1],[1,1,4,2]],"text":["one","t\xc3\xbco","\xe2\x86\x92 end"]}'
)
CHUNK = codec.decode(STORED)

texts = st.text(st.characters(codec="utf-8"))
lines = st.builds(
    LogLine,
    st.integers(0, 2**32).map(float),
    st.none() | texts,
    st.sampled_from(STREAMS),
    st.sampled_from(LEVELS),
    texts,
)


def test_a_chunk_of_the_first_version_is_read_and_written_the_same() -> None:
    assert list(CHUNK.lines) == [
        LogLine(1700000000.5, "load", "stdout", "INFO", "one"),
        LogLine(1700000000.75, "load", "stdout", "INFO", "tüo"),
        LogLine(1700000000.750001, None, "pyoco", "WARNING", "→ end"),
    ]
    assert (CHUNK.attempt, CHUNK.first_line, CHUNK.next_line) == (2, 11, 14)
    assert (CHUNK.first_byte, CHUNK.next_byte, CHUNK.previous) == (120, 136, 7)
    assert codec.encode(CHUNK) == STORED


@given(st.lists(lines, max_size=10))
def test_a_chunk_survives_storage(written: list[LogLine]) -> None:
    chunk = chunk_of(written, attempt=1, behind=CHUNK, sequence=9)

    decoded = codec.decode(codec.encode(chunk))

    assert list(decoded.lines) == written
    assert (decoded.first_line, decoded.first_byte, decoded.previous) == (14, 136, 9)
    assert decoded.size_bytes == sum(len(line.text.encode()) + 1 for line in written)


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"v":2}', b"\xff", STORED.replace(b'"prev":7,', b"")])
def test_bytes_that_are_not_a_chunk_are_refused(data: bytes) -> None:
    with pytest.raises(codec.NotAChunk):
        codec.decode(data)


@given(st.integers(1, 2**53), st.integers(0, 2**53))
def test_a_token_encodes_its_position(line: int, sequence: int) -> None:
    assert tokens.decode(tokens.encode(LogPosition(line, sequence), RUN), RUN) == LogPosition(line, sequence)


@given(st.text(max_size=60))
def test_any_other_text_is_refused_as_a_token(token: str) -> None:
    with pytest.raises(InvalidLogQuery):
        tokens.decode(token, RUN)


@pytest.mark.parametrize("payload", [b"", b"[", b"\xff", b"[" * 150, b"[0,0]", b"[1.5,0]", b"{}"])
def test_a_forged_token_with_a_valid_checksum_is_refused(payload: bytes) -> None:
    check = _check(payload, ("log", RUN))

    with pytest.raises(InvalidLogQuery, match="not made by this server"):
        tokens.decode(urlsafe_b64encode(check + payload).rstrip(b"=").decode(), RUN)


def test_a_token_of_another_run_is_refused() -> None:
    token = tokens.encode(LogPosition(5, 3), RunId("0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e12"))

    with pytest.raises(InvalidLogQuery, match="another run"):
        tokens.decode(token, RUN)
