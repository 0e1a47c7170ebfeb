"""Settings and fixtures for all tests.

`PYOCO_TEST_LONG=1` multiplies the number of generated examples and of simulated interleavings.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from pyoco_server.adapters.embedded_nats.server import EmbeddedNats
from support.effort import LONG
from support.nats import running_nats, url_with_token

E2E = Path(__file__).parent / "e2e"
E2E_TIMEOUT_SEC = 300.0

# No deadline per example: it would measure how busy the machine is.
settings.register_profile(
    "quick", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("quick"), max_examples=2_000, derandomize=False)
settings.load_profile("long" if LONG else "quick")

# Neither the profiles nor the last run of the person who runs the tests.
os.environ |= {"XDG_CONFIG_HOME": f"{os.devnull}/config", "XDG_STATE_HOME": f"{os.devnull}/state"}

# A shell starts background jobs with SIGINT ignored, and programs that the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start whole systems get a longer timeout than `timeout` in pyproject.toml, unless they set one."""
    for item in items:
        if item.path.is_relative_to(E2E) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(E2E_TIMEOUT_SEC))


@pytest.fixture(scope="session", autouse=True)
def _no_data_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Programs without a data folder of their own leave that of the user alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield


@pytest_asyncio.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    """A nats-server of the test's own, with an empty store."""
    async with running_nats(tmp_path) as server:
        yield server


@pytest.fixture
def nats_url(nats_server: EmbeddedNats) -> str:
    """The address, token included, of a nats-server of the test's own."""
    return url_with_token(nats_server)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def module_nats_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address, token included, of one nats-server for all tests of a module, which share its streams."""
    async with running_nats(tmp_path_factory.mktemp("nats")) as server:
        yield url_with_token(server)
