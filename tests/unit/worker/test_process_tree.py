"""A child is killed with everything below it, however young it is."""

from __future__ import annotations

import signal
import subprocess

from pyoco_server.worker.runner_process import process_tree


def test_a_child_without_a_process_group_of_its_own_is_killed_too() -> None:
    with subprocess.Popen(["sleep", "60"]) as just_forked:
        process_tree.kill_tree(just_forked.pid)

        assert just_forked.wait(10) == -signal.SIGKILL
