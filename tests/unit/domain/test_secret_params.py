"""Values of secret params are removed from texts; names decide, at any depth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyoco_server.config import NatsBackendConfig
from pyoco_server.domain.flow_yaml import patterns_of
from pyoco_server.domain.secret_params import MASK, SecretMask

DEFAULT = patterns_of(NatsBackendConfig().secret_params)


@pytest.mark.parametrize(
    "params",
    [
        {"password": "hunter22"},
        {"DB_PASSWORD": "hunter22"},
        {"apiKey": "hunter22"},
        {"api-key": "hunter22"},
        {"github": {"token": "hunter22"}},
        {"credentials": {"user": "anna", "keys": ["hunter22"]}},
        {"tokens": ["other", "hunter22"]},
    ],
)
def test_a_secret_is_found_by_its_name_at_any_depth(params: dict[str, Any]) -> None:
    assert SecretMask(params, DEFAULT)("login with hunter22 failed") == f"login with {MASK} failed"


@pytest.mark.parametrize(
    "params", [{"user": "hunter22"}, {"password": None}, {"password": True}, {"password": "abc"}, {}]
)
def test_other_params_and_very_short_values_are_left(params: dict[str, Any]) -> None:
    text = "hunter22 None True abc"

    assert SecretMask(params, DEFAULT)(text) == text


def test_numbers_are_secrets_too() -> None:
    assert SecretMask({"secret_number": 12345}, DEFAULT)("no 12345") == f"no {MASK}"


def test_a_value_within_another_does_not_uncover_it() -> None:
    mask = SecretMask({"token": "abcd", "password": "abcd-efgh"}, DEFAULT)

    assert mask("abcd-efgh abcd") == f"{MASK} {MASK}"


def test_the_lines_of_a_secret_are_masked_one_by_one() -> None:
    mask = SecretMask({"secret_key": "-----BEGIN-----\nMIIEvQ\n-----END-----\n"}, DEFAULT)

    assert mask("bad line: MIIEvQ") == f"bad line: {MASK}"


def test_a_pattern_that_matches_nothing_turns_it_off() -> None:
    assert SecretMask({"password": "hunter22"}, patterns_of("-"))("hunter22") == "hunter22"


def test_a_secret_that_a_task_removes_from_its_params_stays_masked() -> None:
    params = {"db": {"password": "hunter22"}}
    mask = SecretMask(params, DEFAULT)

    params["db"].clear()

    assert mask("hunter22") == MASK


@given(secret=st.text(min_size=4), before=st.text(), after=st.text())
def test_no_secret_is_left_in_a_text_as_it_is_or_quoted(secret: str, before: str, after: str) -> None:
    assume(secret.strip() and secret not in MASK * 3)
    mask = SecretMask({"password": secret}, DEFAULT)

    for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
        assume(len(form) >= 4 and form not in before + after and form not in MASK)
        assert form not in mask(f"<{form}>") or form in MASK
