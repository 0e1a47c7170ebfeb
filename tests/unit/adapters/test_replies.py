"""Pending replies, and when a silent server counts as lost."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.jetstream.client import Message, Replies
from pyoco_server.adapters.jetstream.failures import NoAnswer


async def test_a_missing_reply_makes_the_server_suspect_until_any_message() -> None:
    replies = Replies(b"_INBOX.", asyncio.get_running_loop())
    _, unanswered = replies.expect(timeout_sec=0.01, many=False, strict=True)
    other, answered = replies.expect(timeout_sec=60.0, many=False)

    with pytest.raises(NoAnswer):
        await unanswered

    assert replies.in_doubt
    replies.receive(Message(other, b"", b"", b"hello"))
    assert (await answered)[0].data == b"hello"
    assert not replies.in_doubt


async def test_a_late_reply_is_awaited_while_others_arrive_but_not_for_ever() -> None:
    loop = asyncio.get_running_loop()
    replies = Replies(b"_INBOX.", loop)
    subject, late = replies.expect(timeout_sec=0.15, many=False)
    _, lost = replies.expect(timeout_sec=0.15, many=False)
    _, strict = replies.expect(timeout_sec=0.15, many=False, strict=True)

    def receive_another_reply() -> None:
        other, _ = replies.expect(timeout_sec=1.0, many=False)
        replies.receive(Message(other, b"", b"", b""))
        if not lost.done():
            loop.call_later(0.02, receive_another_reply)

    receive_another_reply()

    with pytest.raises(NoAnswer):
        await strict
    assert not late.done()
    replies.receive(Message(subject, b"", b"", b"at last"))
    assert (await late)[0].data == b"at last"
    with pytest.raises(NoAnswer):
        await lost
