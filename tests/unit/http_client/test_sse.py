"""Parsing of server-sent events, for any split of the bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.http_client.sse import ServerEvent, SseParser


def parsed(*chunks: bytes, max_event_bytes: int = 1_000_000) -> list[ServerEvent]:
    parser = SseParser(max_event_bytes=max_event_bytes)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def event(data: str, *, name: str = "message", id: str = "") -> ServerEvent:
    return ServerEvent(event=name, data=data, id=id)


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [event("a")]),
        (b"data:a\n\n", [event("a")]),
        (b"data:  a\n\n", [event(" a")]),
        (b"data\n\n", [event("")]),
        (b"data: a\ndata: b\n\n", [event("a\nb")]),
        (b"event: snapshot\nid: 7\ndata: a\n\n", [event("a", name="snapshot", id="7")]),
        (b"id: 7\ndata: a\n\ndata: b\n\n", [event("a", id="7"), event("b", id="7")]),
        (b"id: 7\n\ndata: b\n\n", [event("b", id="7")]),
        (b"id: 7\ndata: a\n\nid\ndata: b\n\n", [event("a", id="7"), event("b")]),
        (b"id: 7\0\ndata: a\n\n", [event("a")]),
        (b": a comment\n\ndata: a\n\n", [event("a")]),
        (b"unknown: x\ndata: a\n\n", [event("a")]),
        (b"event: lost\n\ndata: a\n\n", [event("a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [event("a")]),
        (b"data: a\r\n\r\ndata: b\r\rdata: c\n\n", [event("a"), event("b"), event("c")]),
        ("data: 日本\n\n".encode(), [event("日本")]),
        (b"data: \xff\n\n", [event("\ufffd")]),
        (b"data: without an end\n", []),
        (b"", []),
    ],
)
def test_a_stream_is_parsed_as_the_standard_defines(stream: bytes, events: list[ServerEvent]) -> None:
    assert parsed(stream) == events


def test_an_event_is_complete_at_its_empty_line() -> None:
    parser = SseParser()

    assert parser.feed(b"data: a\r\n\r") == [event("a")]
    assert parser.feed(b"\ndata: b\r\n\r\n") == [event("b")]


@pytest.mark.parametrize(("line", "seconds"), [(b"1500", 1.5), (b"x", None), (b"-1", None), ("１".encode(), None)])
def test_retry_is_used_if_it_is_a_number(line: bytes, seconds: float | None) -> None:
    parser = SseParser()

    parser.feed(b"retry: " + line + b"\n\n")

    assert parser.retry_sec == seconds


def test_an_event_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(ValueError, match="more than"):
        parsed(*[b"data: xxxxxx"] * 20, max_event_bytes=100)


def test_the_size_limit_of_an_event_includes_all_its_lines() -> None:
    with pytest.raises(ValueError, match="more than"):
        parsed(*[b"data: xxxxxx\n"] * 20, max_event_bytes=100)


def test_a_stream_of_comments_is_unbounded() -> None:
    stream = [b": still here\n"] * 100

    assert parsed(*stream, b"data: a\n\n", max_event_bytes=100) == [event("a")]


LINES = st.sampled_from(
    [
        b"data: a",
        b"data: b",
        b"data",
        b"id: 1",
        b"id: 2",
        b"event: e",
        b": c",
        b"retry: 5",
        b"",
        b"\xef\xbb\xbf",
        b"\xc3",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r", b"\r\n"]))).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(stream=STREAMS | st.binary(), cuts=st.lists(st.integers(0, 200)))
def test_the_split_of_a_stream_does_not_matter(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[start:end] for start, end in pairwise(edges)]

    assert parsed(*pieces) == parsed(stream)
    assert parsed(*(bytes([byte]) for byte in stream)) == parsed(stream)
