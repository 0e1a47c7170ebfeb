"""Loading the resolver that --flow-resolver names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyoco_server.errors import InvalidUsage
from pyoco_server.worker.runner_process.flow_loader import load_resolver


@pytest.fixture(autouse=True)
def _imports_are_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_file_can_import_its_siblings(tmp_path: Path) -> None:
    (tmp_path / "my_neighbour.py").write_text("NAME = 'next door'")
    (tmp_path / "my_flows.py").write_text("import my_neighbour\ndef resolve(name): return my_neighbour.NAME")

    resolver = load_resolver(f"{tmp_path / 'my_flows.py'}:resolve")

    assert resolver("any") == "next door"


def test_a_module_below_the_working_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "my_module_flows.py").write_text("class Flows:\n    resolve = staticmethod(lambda name: name)")

    resolver = load_resolver("my_module_flows:Flows.resolve")

    assert resolver("any") == "any"


def test_a_file_does_not_replace_a_loaded_module(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def resolve(name): return name")
    real = sys.modules["json"]

    load_resolver(f"{tmp_path / 'json.py'}:resolve")

    assert sys.modules["json"] is real


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("my_flows", "is not of the form module:function or path/to/file.py:function"),
        (":resolve", "is not of the form"),
        ("no_such_module_here:resolve", "names module 'no_such_module_here', which is not installed"),
        ("./missing.py:resolve", "there is no such file"),
        ("./flows.py:missing", "has no such name"),
        ("./flows.py:NUMBER", "is a int; it must be a function"),
        ("./broken.py:resolve", "cannot be imported: ZeroDivisionError: division by zero"),
        ("./leaving.py:resolve", "cannot be imported: SystemExit: 2"),
        ("./invalid.py:resolve", "cannot be imported: SyntaxError"),
    ],
)
def test_a_resolver_that_cannot_be_loaded_names_the_reason(tmp_path: Path, spec: str, reason: str) -> None:
    (tmp_path / "flows.py").write_text("NUMBER = 1")
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(2)")
    (tmp_path / "invalid.py").write_text("def (:")

    with pytest.raises(InvalidUsage) as refused:
        load_resolver(spec)

    assert reason in refused.value.detail


def test_without_a_spec_there_is_no_flow_and_the_working_folder_is_importable(tmp_path: Path) -> None:
    resolver = load_resolver("")

    with pytest.raises(KeyError, match="any"):
        resolver("any")
    assert sys.path[0] == str(tmp_path)


def test_with_a_resolver_the_working_folder_is_searched_last(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "far_flows.py").write_text("def resolve(name): return name")

    load_resolver("flows/far_flows.py:resolve")

    assert (sys.path[0], sys.path[-1]) == (str(tmp_path / "flows"), str(tmp_path))
