"""References in inputs: the forms that pyoco resolves, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoco.core.context import Context
from pyoco.core.exceptions import InvalidReferenceError

from pyoco_server.domain.flow_yaml import is_selector, is_well_formed

PARTS = st.sampled_from(["node", "ctx", "params", "env", "output", "", "x"])
SELECTORS = st.lists(PARTS, min_size=1, max_size=5).map(lambda parts: "$" + ".".join(parts))


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("context"))  # pyoco makes a folder there


@given(SELECTORS)
@settings(deadline=None)
def test_a_form_is_good_if_pyoco_does_not_call_it_invalid(selector: str) -> None:
    try:
        Context(params={}).resolve(selector)
        is_invalid = False
    except InvalidReferenceError:
        is_invalid = True
    except KeyError:
        is_invalid = False

    assert is_well_formed(selector) is not is_invalid


def test_only_a_text_that_begins_with_a_dollar_refers_to_something() -> None:
    assert is_selector("$env.HOME")
    assert not any(is_selector(value) for value in ("5 $", 5, None, ["$env.HOME"], {"a": "$env.HOME"}))
