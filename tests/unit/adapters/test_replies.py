"""Who waits for which reply, and when the server is doubted."""

from __future__ import annotations

import asyncio

import pytest

from pyoco_server.adapters.jetstream.failures import NoAnswer
from pyoco_server.adapters.jetstream.messages import Message
from pyoco_server.adapters.jetstream.replies import Replies


async def test_a_reply_that_does_not_come_puts_the_server_in_doubt_until_it_says_anything_at_all() -> None:
    replies = Replies(b"_INBOX.", asyncio.get_running_loop())
    _, unanswered = replies.expect(timeout_sec=0.01, many=False)
    other, answered = replies.expect(timeout_sec=60.0, many=False)

    with pytest.raises(NoAnswer):
        await unanswered

    assert replies.in_doubt
    replies.heard(Message(other, b"", b"", b"hello"))
    assert (await answered)[0].data == b"hello"
    assert not replies.in_doubt
