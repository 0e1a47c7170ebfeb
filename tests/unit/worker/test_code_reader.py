"""The version of the flows' sources: which files count, and that every change of one is seen."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_server.worker.runner_pool import code
from pyoco_server.worker.runner_pool.code import CodeReader

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    (tmp_path / "app").mkdir()
    monkeypatch.chdir(tmp_path / "app")

    def write(name: str, text: str = "") -> Path:
        path = Path.cwd() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def names(reader: CodeReader) -> list[str]:
    return sorted(os.path.relpath(path) for path in reader.read().files)


def test_sources_below_the_folders_of_the_resolver_and_of_the_worker_count(write: Write) -> None:
    for name in ("tasks.py", "pkg/deep/inner.py", "../elsewhere/flows.py", "../elsewhere/helper.py"):
        write(name, "")

    found = names(CodeReader("../elsewhere/flows.py:resolve"))

    assert found == ["../elsewhere/flows.py", "../elsewhere/helper.py", "pkg/deep/inner.py", "tasks.py"]


@pytest.mark.parametrize(
    "other",
    [".venv/x.py", "env/pyvenv.cfg", "lib/site-packages/x.py", "node_modules/x.py", "no-module/x.py", "notes.txt"],
)
def test_hidden_installed_and_other_files_do_not_count(write: Write, other: str) -> None:
    write("flows.py", "")
    write(other, "")
    write(os.path.join(os.path.dirname(other), "y.txt"), "")
    if other.endswith(".cfg"):
        write("env/inside.py", "")

    assert names(CodeReader("flows.py:resolve")) == ["flows.py"]


def test_the_folder_of_a_module_counts(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    package = write("../src/pkg/__init__.py", "")
    write("../src/pkg/flows.py", "")
    write("../src/beside.py", "")
    monkeypatch.syspath_prepend(str(package.parent.parent))

    assert names(CodeReader("pkg.flows:resolve")) == [
        "../src/beside.py",
        "../src/pkg/__init__.py",
        "../src/pkg/flows.py",
    ]


def test_equal_sources_in_different_places_are_the_same_version(write: Write) -> None:
    for place in ("one", "two"):
        write(f"../{place}/flows.py", "import tasks")
        write(f"../{place}/pkg/tasks.py", "1")

    one, two = (CodeReader(f"../{place}/flows.py:resolve").read().version for place in ("one", "two"))

    assert one is not None
    assert one == two


def test_an_edit_of_the_same_size_and_time_is_another_version(write: Write) -> None:
    path = write("flows.py", "a = 1")
    reader = CodeReader("flows.py:resolve")
    before, times = reader.read().version, path.stat()

    path.write_text("a = 2")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert reader.read().version != before


@pytest.mark.parametrize(
    "change", [lambda: Path("new.py").touch(), lambda: Path("a.py").unlink(), lambda: Path("a.py").rename("b.py")]
)
def test_new_removed_and_renamed_files_are_another_version(write: Write, change: Callable[[], object]) -> None:
    write("flows.py", "")
    write("a.py", "x = 1")
    reader = CodeReader("flows.py:resolve")
    before = reader.read().version

    change()

    assert reader.read().version != before


def test_an_unchanged_settled_file_is_not_read_again(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("flows.py", "a = 1")
    monkeypatch.setattr(code, "SETTLED_SEC", -1.0)
    reader = CodeReader("flows.py:resolve")
    before = reader.read()

    monkeypatch.setattr(code, "open", lambda *_: pytest.fail("the file was opened"), raising=False)

    assert reader.read() == before


def test_links_to_files_and_folders_are_followed_once(write: Write) -> None:
    write("../shared/lib/common.py", "")
    target = write("../data/tasks.txt", "")
    Path("tasks.py").symlink_to(target)
    Path("lib").symlink_to(Path("../shared/lib").resolve())
    Path("loop").symlink_to(Path.cwd())

    assert names(CodeReader("")) == ["lib/common.py", "tasks.py"]


def test_what_exceeds_the_limits_is_left_out_with_one_warning(
    write: Write, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(code, "MAX_FILES", 2)
    for name in ("flows.py", "pkg/a.py", "pkg/b.py"):
        write(name, "")
    reader = CodeReader("flows.py:resolve")

    with caplog.at_level(logging.WARNING):
        found = [names(reader), names(reader)]

    assert found == [["flows.py", "pkg/a.py"]] * 2
    assert len(caplog.records) == 1


def test_a_pipe_is_not_opened(write: Write) -> None:
    write("flows.py", "")
    os.mkfifo("waits.py")

    assert names(CodeReader("flows.py:resolve")) == ["flows.py"]


def test_links_to_themselves_are_passed_over(write: Write) -> None:
    write("flows.py", "")
    Path("loop").symlink_to("loop")
    Path("loop.py").symlink_to("loop.py")

    assert names(CodeReader("flows.py:resolve")) == ["flows.py"]


def test_links_of_tasks_are_not_read_with_the_rights_of_the_worker(write: Write) -> None:
    write("flows.py", "")
    Path("stolen.py").symlink_to(write("../secret/token.txt", "the token"))
    write("../secret/inner.py", "")
    Path("folder").symlink_to(Path("../secret").resolve())

    assert names(CodeReader("flows.py:resolve", follow_links=False)) == ["flows.py"]


def test_without_sources_there_is_no_version(write: Write) -> None:
    assert CodeReader("").read().version is None
