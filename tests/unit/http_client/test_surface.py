"""The two clients say the same; and what importing them costs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pyoco_server.http_client as sdk
from pyoco_server.http_client import AsyncPyocoHttpClient, PyocoHttpClient

SRC = Path(sdk.__file__).parents[2]
STREAMS = {"watch", "iter_runs"}


def methods(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_") and inspect.isfunction(value)}


def signature(function: object) -> str:
    """As it stands in the source, without what is the way of async."""
    assert inspect.isfunction(function)
    text = str(inspect.signature(function))
    text = re.sub(r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]", text)
    return text.replace("AsyncPyoco", "Pyoco").replace("AsyncBaseTransport", "BaseTransport")


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


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after the statement."""
    program = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{statement}\nprint(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


def test_the_whole_sdk_loads_nothing_of_the_server() -> None:
    names = ", ".join(sdk.__all__)

    loaded = loaded_by(
        f"from pyoco_server.http_client import {names}\nPyocoHttpClient().close()\nAsyncPyocoHttpClient()"
    )

    ours = {name for name in loaded if name.startswith("pyoco_server.")}
    assert {name for name in ours if not name.startswith("pyoco_server.http_client")} == set()
    foreign = {name.partition(".")[0] for name in loaded}
    assert (
        foreign & {"fastapi", "starlette", "nats", "pydantic", "orjson", "pyoco", "sqlite3", "uvicorn", "yaml"} == set()
    )


def test_the_command_line_of_httpx_is_not_loaded_with_it() -> None:
    loaded = loaded_by("from pyoco_server.http_client import PyocoHttpClient\nPyocoHttpClient()")

    assert "httpx" in loaded
    assert {"click", "rich", "pygments", "httpx._main"} & loaded == set()


def test_importing_the_client_does_not_even_load_httpx() -> None:
    loaded = loaded_by("from pyoco_server.http_client import PyocoHttpClient")

    assert {"httpx", "asyncio", "ssl", "email"} & loaded == set()
