"""The two clients say the same, and the package has the names that it promises."""

from __future__ import annotations

import inspect
import re

import pytest

import pyoco_server.http_client as sdk
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient

STREAMS = {
    "watch",
    "iter_runs",
    "follow_run_logs",
    "iter_executions",
    "iter_events",
    "follow_events",
    "iter_waits",
    "iter_graphs",
    "iter_jobs",
    "iter_tags",
    "follow_job_logs",
}


def methods(kind: type) -> dict[str, object]:
    return {name: value for name, value in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def signature(function: object) -> str:
    """As it stands in the source, without what is the way of async."""
    assert inspect.isfunction(function)
    text = str(inspect.signature(function))
    text = re.sub(r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]", text)
    for name in ("PyocoHttpClient", "BaseTransport", "JobLogStream"):
        text = text.replace(f"Async{name}", name)
    return text


def test_both_clients_have_the_same_methods() -> None:
    assert set(methods(PyocoHttpClient)) == set(methods(AsyncPyocoHttpClient))


@pytest.mark.parametrize("name", ["__init__", *methods(PyocoHttpClient)])
def test_a_method_has_the_same_signature_and_promise_in_both(name: str) -> None:
    blocking, awaited = getattr(PyocoHttpClient, name), getattr(AsyncPyocoHttpClient, name)

    assert signature(blocking) == signature(awaited)
    assert blocking.__doc__ == awaited.__doc__
    assert inspect.iscoroutinefunction(awaited) is (name not in STREAMS | {"__init__"})


@pytest.mark.parametrize("name", sdk.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(sdk, name) is not None


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        sdk.Nonsense  # noqa: B018 - asking for it is the test


def test_whatever_changes_something_takes_a_key() -> None:
    looks = ("get_", "list_", "iter_", "follow_", "job_", "watch", "wait", "health", "explain_", "download_", "close")
    changing = {name: value for name, value in methods(PyocoHttpClient).items() if not name.startswith(looks)}

    assert {"execute", "claim_node", "put_graph", "submit_run", "add_job_tag"} <= set(changing)
    for name, function in changing.items():
        assert "idempotency_key" in signature(function), name
