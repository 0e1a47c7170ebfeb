"""The supervisor reads the sources of flows, and nothing that a task may have put among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyoco_server.worker.runner_pool.code import CodeReader


@pytest.mark.parametrize("follow_links", [True, False])
def test_links_of_tasks_are_not_read_with_the_rights_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, follow_links: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("the token")
    (tmp_path / "flows.py").write_text("FLOWS = {}")
    (tmp_path / "stolen.py").symlink_to("secret.txt")

    code = CodeReader("flows:resolve", follow_links=follow_links).read()

    assert {Path(path).name for path in code.files} == {"flows.py"} | ({"stolen.py"} if follow_links else set())


def test_a_pipe_among_the_sources_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows.py").write_text("FLOWS = {}")
    os.mkfifo(tmp_path / "waiting.py")

    assert CodeReader("flows:resolve").read().files[str(tmp_path / "flows.py")] == b"FLOWS = {}"
