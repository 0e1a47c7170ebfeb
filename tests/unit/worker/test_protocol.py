"""Frames between runner and supervisor: complete messages for any split of the bytes, errors otherwise."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.worker.runner_process.protocol import FRAME_CAP_BYTES, CorruptFrame, Decoder, FrameTooLarge, encode

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(st.lists(json_values, max_size=5), st.lists(st.integers(1, 50), max_size=30))
def test_messages_survive_any_split_of_their_bytes(messages: list[object], cuts: list[int]) -> None:
    stream = b"".join(encode(message) for message in messages)
    decoder = Decoder()

    received: list[object] = []
    for cut in cuts:
        received += decoder.feed(stream[:cut])
        stream = stream[cut:]
    received += decoder.feed(stream)

    assert received == messages


def test_an_incomplete_frame_is_no_message() -> None:
    frame = encode(["steps", []])
    decoder = Decoder()

    assert decoder.feed(frame[:3]) == []
    assert decoder.feed(frame[3:-1]) == []
    assert decoder.feed(frame[-1:]) == [["steps", []]]


def test_a_frame_declared_above_the_cap_is_refused_before_its_bytes_arrive() -> None:
    decoder = Decoder()

    with pytest.raises(CorruptFrame, match="cap"):
        decoder.feed(struct.pack(">I", FRAME_CAP_BYTES + 1))


def test_text_written_into_the_socket_is_refused_at_once() -> None:
    decoder = Decoder()

    with pytest.raises(CorruptFrame):
        decoder.feed(b"hello from a task\n")


def test_a_frame_that_is_not_json_is_refused() -> None:
    decoder = Decoder()

    with pytest.raises(CorruptFrame, match="not JSON"):
        decoder.feed(struct.pack(">I", 4) + b"{{{{")


def test_a_message_above_the_cap_is_not_sent() -> None:
    with pytest.raises(FrameTooLarge):
        encode("x" * FRAME_CAP_BYTES)


def test_a_message_just_below_the_cap_arrives_complete() -> None:
    message = "x" * (FRAME_CAP_BYTES - 2)

    received = Decoder().feed(encode(message))

    assert received == [message]
