"""The modules that an import of the SDK loads, in a separate interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyoco_server.http_client as sdk

SRC = Path(sdk.__file__).parents[2]


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has after the statement."""
    program = f"import sys; sys.path.insert(0, {str(SRC)!r})\n{statement}\nprint(*sys.modules)"
    response = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(response.stdout.split())


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
