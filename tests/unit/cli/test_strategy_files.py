"""Reading files of strategies: every row with its line, and rejected ones with their reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.cli.strategy_files import read_rows
from pyoco_server.errors import InvalidUsage

CSV = """id,title,instrument,enabled,tags
a,First,USDJPY,,"daily, fast"
b,"Two
lines",USDJPY,yes,
c,Third,USDJPY,off,x;y
Upper,Fourth,USDJPY,,
a,Fifth,EURUSD,,
d,Sixth
e,Seventh,USDJPY,maybe,
"""


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_of_a_csv_file_have_their_lines_and_reasons(tmp_path: Path) -> None:
    rows = list(read_rows(written(tmp_path, "s.csv", CSV)))

    good = {row.line: row.strategy for row in rows if row.strategy is not None}
    assert {line: (one.id, one.enabled, one.tags) for line, one in good.items()} == {
        2: ("a", True, ("daily", "fast")),
        5: ("c", False, ("x", "y")),
    }
    assert [(row.line, row.reason.partition(":")[0]) for row in rows if row.strategy is None] == [
        (3, "title"),
        (6, "a strategy id is 1 to 128 of the characters a-z 0-9 . _ -"),
        (7, "id"),
        (8, "it has 2 columns, and not the fields id, title, instrument, enabled, tags"),
        (9, "enabled"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.json", '[\n {"id": "a", "title": "A", "instrument": "X", "tags": ["t"]},\n\n {"id": 3}, 5]'),
        ("s.yaml", "- id: a\n  title: A\n  instrument: X\n  tags: [t]\n- id: 3\n- 5\n"),
    ],
)
def test_rows_of_other_files_have_their_lines_too(tmp_path: Path, name: str, text: str) -> None:
    first, *others = read_rows(written(tmp_path, name, text))

    assert first.strategy is not None
    assert (first.strategy.id, first.strategy.tags) == ("a", ("t",))
    assert [(row.line, row.reason.partition(",")[0]) for row in others] == (
        [(4, "id: a text is required"), (4, "it has no object")]
        if name == "s.json"
        else [(5, "id: a text is required"), (6, "it has no object")]
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.txt", ""),
        ("s.csv", "name,title\n"),
        ("s.csv", 'id,title,instrument\na,"b'),
        ("s.json", "{}"),
        ("s.json", "[1 2]"),
        ("s.json", "[1"),
        ("s.json", "[tru]"),
        ("s.yaml", "a: 1"),
        ("s.yaml", "- [a"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, name: str, text: str) -> None:
    path = written(tmp_path, name, text)

    with pytest.raises(InvalidUsage):
        list(read_rows(path))
