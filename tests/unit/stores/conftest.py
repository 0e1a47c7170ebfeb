"""The typed stores in memory; the ports below have their own contract suites."""

from __future__ import annotations

import pytest

from support.stores import Ports, memory_ports


@pytest.fixture
def ports() -> Ports:
    return memory_ports()
