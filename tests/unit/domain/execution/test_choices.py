"""The choices of a prompt, and which one an answer names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from pyoco_server.domain.execution.choices import (
    MAX_CHOICE_CHARS,
    MAX_CHOICES,
    MAX_NAMED,
    choices_of,
    chosen,
    problem_of_prompt,
    shown,
)
from unit.domain.execution.strategies import json_values, thorough


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [
        ({"question": "Ship?", "choices": ["ship", "stop"]}, ("ship", "stop")),
        ({"choices": [1, 2.5, True, "2"]}, ("1", "2.5", "true", "2")),
        ({"question": "Ship?"}, ()),
        (None, ()),
        ("ship or stop?", ()),
        (["ship", "stop"], ()),
        ({"choices": []}, ()),
        ({"choices": "ship"}, ()),
        ({"choices": ["ship", {"id": "stop"}]}, ()),
        ({"choices": ["ship", "ship"]}, ()),
    ],
)
def test_a_prompt_offers_the_choices_that_it_lists(prompt: Any, choices: tuple[str, ...]) -> None:
    assert choices_of(prompt) == choices


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        ("stop", "stop"),
        ({"choice": "stop"}, "stop"),
        ({"choice": "stop", "comment": "not on a friday"}, "stop"),
        (2, "2"),
        ({"choice": True}, "true"),
        ("", ""),
        (None, None),
        ({}, None),
        ({"answer": "stop"}, None),
        (["stop"], None),
        ({"choice": {"choice": "stop"}}, None),
    ],
)
def test_an_answer_names_a_choice_by_itself_or_as_its_field(answer: Any, choice: str | None) -> None:
    assert chosen(answer) == choice


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("ship", "a list of 1 to 100 choices"),
        (None, "a list of 1 to 100 choices"),
        ([], "a list of 1 to 100 choices"),
        ([str(number) for number in range(MAX_CHOICES + 1)], "a list of 1 to 100 choices"),
        (["ship", None], "a text, a number, true or false"),
        ([{"id": "ship"}], "a text, a number, true or false"),
        ([""], "1 to 128 printable characters"),
        (["x" * (MAX_CHOICE_CHARS + 1)], "1 to 128 printable characters"),
        (["a\x1b[2J"], "1 to 128 printable characters"),
        (["ship", "stop", "ship"], "listed twice"),
        (["1", 1], "listed twice"),
    ],
)
def test_choices_that_cannot_be_answered_are_named(listed: Any, words: str) -> None:
    assert words in (problem_of_prompt({"choices": listed}) or "")


def test_a_prompt_without_choices_has_no_problem() -> None:
    prompts: tuple[Any, ...] = (None, 1, "Ship?", [], {}, {"question": "Ship?"})

    assert [problem_of_prompt(prompt) for prompt in prompts] == [None] * 6


def test_many_choices_are_counted_in_a_message() -> None:
    assert shown(("ship", "stop")) == "ship, stop"
    assert shown([str(number) for number in range(MAX_NAMED + 3)]).endswith("18, 19 and 3 more")


@thorough
@given(json_values, json_values)
def test_every_prompt_and_every_answer_can_be_read(prompt: Any, answer: Any) -> None:
    for choice in choices_of({"choices": prompt}):
        assert chosen(choice) == chosen({"choice": choice}) == choice
    assert chosen(answer) is None or isinstance(chosen(answer), str)
