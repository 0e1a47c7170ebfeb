"""Streams that replace a program's own while a flow runs in one of its threads."""

from __future__ import annotations

import io
import sys

import pytest

from pyoco_server.worker.output.capture import ThreadOutputCapture


def test_a_stream_that_outlives_the_programs_own_has_no_unflushed_text(monkeypatch: pytest.MonkeyPatch) -> None:
    own = io.StringIO()
    monkeypatch.setattr(sys, "stdout", own)
    with ThreadOutputCapture(lambda _lines: None).capturing():
        ours = sys.stdout
    own.close()

    ours.flush()

    assert sys.stdout is own
