"""Callables of a flow.yaml: code of Python itself is refused in whatever module it is found, unless it is named."""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import subprocess
import sys
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from pyoco import task

from pyoco_server.adapters.flow_graph import read_flow_file
from pyoco_server.errors import InvalidRequest
from pyoco_server.worker.runner_process.callables import is_in_standard_library, standard_code_of
from pyoco_server.worker.runner_process.flow_loader import TaskNotLoadable, load_flow_yaml
from pyoco_server.worker.runner_process.protocol import RunJob

FILE = "tasks: {{a: {{callable: '{}'}}}}\nflow: {{graph: a}}"
MODULE = "module_of_the_worker"


def own(*_: Any) -> None:
    """A function of a user."""


@contextlib.contextmanager
def around() -> Iterator[None]:
    yield


@around()
def decorated() -> None:
    """A function with a decorator of the standard library."""


class Plain:
    pass


class Calls:
    def __init__(self, at: int = 0) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at

    def method(self) -> None:
        return None

    @classmethod
    def of(cls) -> Calls:
        return cls()


class Endless:
    """Has every attribute, and each has every attribute."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Endless:
        return Endless()

    def __call__(self) -> None:
        return None


class Named(NamedTuple):
    at: int = 0


class Runs(subprocess.Popen[bytes]):
    pass


class Pool(ThreadPoolExecutor):
    pass


class MyList(list[Any]):
    pass


class MyPartial(functools.partial[Any]):
    pass


class MyCase(unittest.TestCase):
    pass


class Colour(Enum):
    RED = 1


OURS: list[Callable[..., Any]] = [
    own,
    lambda: None,
    decorated,
    task(own),
    functools.partial(own, 1),
    functools.partial(functools.partial(own, 1), 2),
    functools.cache(own),
    functools.singledispatch(own),
    staticmethod(own),
    Plain,
    Calls,
    Calls(),
    Calls().method,
    Calls.of,
    Endless(),
    Named,
    orjson.dumps,
]
PYTHONS: list[Callable[..., Any]] = [
    os.system,
    subprocess.run,
    subprocess.Popen,
    eval,
    exec,
    open,
    map,
    type,
    task(os.system),
    functools.partial(subprocess.run, shell=True),
    functools.partial(functools.partial(os.system), "true"),
    MyPartial(os.system),
    functools.cache(os.system),
    functools.wraps(os.system)(lambda *_: None),
    staticmethod(os.system),
    operator.methodcaller("system", "true"),
    operator.attrgetter("__globals__"),
    Runs,
    Pool(1).submit,
    MyCase,
    MyCase().debug,
    MyList,
    MyList().append,
    dict.fromkeys,
    str.upper,
    "{0.__globals__}".format,
    os.system.__call__,  # type: ignore[operator]
    own.__call__,  # type: ignore[operator]
    own.__getattribute__,
    sys.modules[__name__].__getattribute__,
    sys.modules[__name__].__reduce_ex__,
    sys.modules[__name__].__class__,
    sys.__loader__.load_module,  # type: ignore[union-attr]
    Colour,
    list[int],
]


@pytest.mark.parametrize("found", OURS)
def test_code_of_users_and_packages_may_be_called(found: Callable[..., Any]) -> None:
    assert callable(found)
    assert standard_code_of(found, ()) is None


@pytest.mark.parametrize("found", PYTHONS)
def test_code_of_python_is_found_in_whatever_it_is_wrapped(found: Callable[..., Any]) -> None:
    assert callable(found)
    assert standard_code_of(found, ()) is not None
    assert standard_code_of(found, ("*", "*:*", "module:*", f"{__name__}:*")) is not None


def test_a_pattern_that_names_the_code_allows_it() -> None:
    assert standard_code_of(functools.partial(subprocess.run), ("subprocess:run",)) is None
    assert standard_code_of(subprocess.run, ("subprocess:*",)) is None
    assert standard_code_of(subprocess.run, ("subprocess:Popen",)) == "subprocess:run"


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "posix:system",
        "builtins:eval",
        "os.path:join",
        "runpy:run_path",
        "timeit:timeit",
        "importlib.util:find_spec",
        "_posixsubprocess:fork_exec",
        "__main__:main",
        "pip._internal.cli.main:main",
        "pyoco_server.cli.worker:main",
    ],
)
def test_the_reader_refuses_modules_of_python_by_name_unless_a_pattern_names_them(name: str) -> None:
    text = FILE.format(name).encode()
    module = name.partition(":")[0]

    refusing: list[tuple[str, ...]] = [(), ("*",), ("*:*",), ("tasks:*",), (f"{module}:other",)]
    for patterns in refusing:
        with pytest.raises(InvalidRequest, match="PYOCO_CALLABLE_ALLOW") as refused:
            read_flow_file(text, allowed=patterns)
        assert "line 1" in refused.value.detail
    for naming in ([name], ["tasks:*", f"{module}:*"]):
        assert read_flow_file(text, allowed=naming).tasks["a"].callable == name


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of the worker that imports more than it defines."""
    (tmp_path / f"{MODULE}.py").write_text(
        "from os import system\nimport functools\ndef own(): return 1\n"
        "later = functools.partial(system, 'true')\n"
        "def __getattr__(name):\n    import subprocess\n    return getattr(subprocess, name)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield MODULE
    sys.modules.pop(MODULE, None)


def load(callable_name: str, *allow: str) -> None:
    load_flow_yaml(
        RunJob(
            run_id="r",
            flow_name="f",
            params={},
            attempt=1,
            workflow_yaml=FILE.format(callable_name),
            callable_allow=allow,
        )
    )


@pytest.mark.parametrize("name", ["system", "later", "run", "Popen", "__class__", "__getattribute__"])
def test_a_worker_refuses_what_its_module_imports_from_python(module: str, name: str) -> None:
    with pytest.raises(TaskNotLoadable, match=rf"its callable '{MODULE}:{name}' runs .* of Python itself"):
        load(f"{module}:{name}")
    with pytest.raises(TaskNotLoadable):
        load(f"{module}:{name}", "module_of_*:*")


def test_a_worker_calls_what_is_named_in_full_and_what_is_its_own(module: str) -> None:
    load(f"{module}:own")
    load(f"{module}:own", "module_of_*:*")
    load(f"{module}:system", f"{module}:system")
    load(f"{module}:run", "module_of_*:*", "subprocess:run")
    load("textwrap:dedent", "textwrap:dedent")


def test_a_module_in_the_folder_of_the_standard_library_is_not_even_imported() -> None:
    # `test` is no name of the standard library's list, because users have modules of that name.
    if not is_in_standard_library("test"):
        pytest.skip("this Python comes without its tests")
    with pytest.raises(TaskNotLoadable, match="of Python itself"):
        load("test.support.script_helper:run_python_until_end")

    assert "test.support.script_helper" not in sys.modules


def test_a_module_inside_the_interpreter_is_of_the_standard_library() -> None:
    assert "__hello__" not in sys.stdlib_module_names
    assert is_in_standard_library("__hello__")
    with pytest.raises(TaskNotLoadable, match="of Python itself"):
        load("__hello__:main")


@pytest.mark.parametrize(
    "name",
    [
        "yaml:unsafe_load",
        "anyio:run_process",
        "click:edit",
        "typer:launch",
        "uvicorn:run",
        "pygments.lexers:load_lexer_from_file",
        "starlette.concurrency:run_in_threadpool",
    ],
)
def test_what_comes_with_the_server_and_runs_any_code_is_refused_unless_it_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match="of this server"):
        load(name)
    with pytest.raises(InvalidRequest, match="of this server"):
        load(name, "*")
    load(name, name)


@pytest.mark.parametrize("name", ["orjson", "pytest", "no_such_module_at_all", "pyoco.core"])
def test_installed_packages_are_no_part_of_the_standard_library(name: str) -> None:
    assert not is_in_standard_library(name)
    assert is_in_standard_library("json")
