"""Ids are UUIDs of version 7 and sort by age."""

from __future__ import annotations

import time
from uuid import UUID

import pytest

from pyoco_server.adapters.system import SystemClock, SystemIds
from pyoco_server.domain.ids import parse_run_id


def test_a_run_id_is_a_uuid_of_version_7_that_carries_its_time() -> None:
    before = time.time_ns() // 1_000_000

    run_id = SystemIds().run_id()

    parsed = UUID(run_id)
    assert (parsed.version, parsed.variant) == (7, "specified in RFC 4122")
    assert before <= parsed.int >> 80 <= time.time_ns() // 1_000_000
    assert parse_run_id(run_id) == run_id


def test_ids_of_one_process_always_rise() -> None:
    ids = SystemIds()

    made = [ids.run_id() for _ in range(20_000)]

    assert made == sorted(set(made))


def test_ids_rise_even_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SystemIds()
    before = ids.run_id()
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)

    assert ids.run_id() > before


def test_ids_of_commits_and_instances_have_32_hex_digits() -> None:
    ids = SystemIds()

    for name in (ids.commit_id(), ids.instance_id()):
        assert len(name) == 32
        assert UUID(hex=name).version == 7


def test_the_clock_returns_unix_seconds() -> None:
    assert abs(SystemClock().now() - time.time()) < 1.0
    assert SystemClock().monotonic() <= SystemClock().monotonic()
