"""Translations are found by the form of a text, at little cost."""

from __future__ import annotations

import time

import pytest

from pyoco_server.japanese import AREAS, catalogue, japanese
from pyoco_server.japanese.catalogue import MAX_CHARS, Catalogue

CATALOGUE = Catalogue(
    {
        "not found": "見つかりません",
        "{count} are more than {most}": "{most} を超えています（{count}）",
        "cannot read {file}: {cause}": "{file} を読めません: {cause:ja}",
        "{text} is not {what}": "{text} は{what:ja}ではありません",
        "a run id": "run の id",
        'as in {{"a": {value}}}': '例: {{"a": {value}}}',
    }
)


@pytest.mark.parametrize(
    ("english", "expected"),
    [
        ("not found", "見つかりません"),
        ("5 are more than 3", "3 を超えています（5）"),
        ('as in {"a": 1}', '例: {"a": 1}'),
        ("cannot read a.yaml: not found", "a.yaml を読めません: 見つかりません"),
        ("cannot read a.yaml: EIO", "a.yaml を読めません: EIO"),
        ("body.tag: not found", "body.tag: 見つかりません"),
        ("tag: not found; limit: 5 are more than 3", "tag: 見つかりません; limit: 3 を超えています（5）"),
        ("tag: not found; something else", "tag: 見つかりません; something else"),
        ("something else", "something else"),
        ("'x' is not a run id", "'x' はrun の idではありません"),
        ("DELETE is not allowed at /x", "DELETE is not allowed at /x"),
    ],
)
def test_a_text_is_translated_with_its_facts_and_what_is_unknown_stays(english: str, expected: str) -> None:
    assert CATALOGUE.translate(english) == expected


def test_a_fact_with_braces_is_shown_as_it_is() -> None:
    assert CATALOGUE.translate("cannot read {x}: {0.__class__}") == "{x} を読めません: {0.__class__}"


@pytest.mark.parametrize("piece", [": ", "; ", "cannot read a: ", ", tried 1 times", " is ", "{", "is not "])
def test_a_hostile_text_costs_little(piece: str) -> None:
    japanese("warm up")

    began = time.process_time()
    japanese(piece * (MAX_CHARS // len(piece)))

    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("area", AREAS)
def test_every_catalogue_of_an_area_can_be_read(area: str) -> None:
    assert catalogue(area).find("no key of a catalogue") is None
