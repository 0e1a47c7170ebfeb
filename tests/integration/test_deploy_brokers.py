"""The NATS configurations of deploy/, checked by the nats-server that is installed."""

from __future__ import annotations

import os
import subprocess

import pytest

from pyoco_server.adapters.embedded_nats.server import find_binary
from support.deployment import ROOT, compose

NATS_OF_COMPOSE = ROOT / "deploy" / "docker" / "nats.conf"
NATS_OF_A_CLUSTER = ROOT / "deploy" / "nats" / "cluster.conf"


@pytest.mark.parametrize("token", ["letters", "123456", "12k", "true", "3e5"])
def test_the_compose_broker_accepts_any_token(token: str) -> None:
    environment = compose({"PYOCO_NATS_TOKEN": token})["nats"]["environment"]

    checked = subprocess.run(
        [find_binary(), "-t", "-c", NATS_OF_COMPOSE],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stderr


def test_the_configuration_of_a_cluster_is_valid() -> None:
    checked = subprocess.run(
        [find_binary(), "-t", "-c", NATS_OF_A_CLUSTER], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr
