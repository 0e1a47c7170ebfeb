"""The blocking client is current, and the package has the names that it promises."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import pytest

import pyoco_server.http_client as sdk
from pyoco_server.http_client import PyocoHttpClient

UNASYNC = Path(__file__).parents[3] / "scripts" / "unasync.py"


def test_the_blocking_client_is_generated_from_the_async_one() -> None:
    unasync = runpy.run_path(str(UNASYNC))

    assert unasync["stale_files"](write=False) == [], "run scripts/unasync"


def test_a_substitution_without_a_use_is_an_error() -> None:
    unasync = runpy.run_path(str(UNASYNC))
    unasync["SUBSTITUTIONS"].append((r"no such text", ""))

    with pytest.raises(SystemExit, match="no such text"):
        unasync["stale_files"](write=False)


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(sdk, name) is not None for name in sdk.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        sdk.Nonsense  # noqa: B018 - asking for it is the test


def test_every_change_takes_an_idempotency_key() -> None:
    reads = re.compile(r"_|(get|list|iter|search|follow|job|explain|download)_|(watch|wait|health|ready|close)$")
    functions = dict(inspect.getmembers(PyocoHttpClient, inspect.isfunction))
    changes = {name: function for name, function in functions.items() if not reads.match(name)}

    assert {"execute", "claim_node", "put_graph", "submit_run", "add_job_tag"} <= set(changes)
    assert [name for name, one in changes.items() if "idempotency_key" not in inspect.signature(one).parameters] == []
