"""A refused command, written as it would be accepted."""

from __future__ import annotations

import pytest

from pyoco_server.cli.correction import MAX_SHOWN, corrected


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["submit", "--param", "wrong"], "submit --param right=1"),
        (["submit", "--param=wrong"], "submit --param=right=1"),
        (["get", "--wrong=x"], "get --wrong=x"),
        (["submit", "--params", '{"a b": 1}'], """submit --params '{"a b": 1}'"""),
        (["--api-key", "s3cret", "list"], '--api-key "$PYOCO_API_KEY" list'),
        (["--api-key=s3cret", "list"], '--api-key="$PYOCO_API_KEY" list'),
        (["list", "--token", "s3cret"], 'list --token "$TOKEN"'),
        (["list", "--server", "http://ann:s3cret@host:8000"], "list --server 'http://…@host:8000'"),
    ],
)
def test_the_command_is_shown_with_the_fix_and_without_its_secrets(arguments: list[str], shown: str) -> None:
    assert corrected(arguments, replace={"wrong": "right=1"}) == f"pyoco-client {shown}"


def test_a_very_long_command_is_cut() -> None:
    assert len(corrected(["x" * 10_000], replace={})) == MAX_SHOWN + 1
