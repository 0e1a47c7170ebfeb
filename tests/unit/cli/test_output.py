"""How the programs end: exit codes of the contract, and advice on stderr."""

from __future__ import annotations

from typing import Annotated

import pytest
import typer

from pyoco_server.cli import output
from pyoco_server.errors import DataFolderInUse, InvalidUsage

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def work(
    count: Annotated[int, typer.Option(min=1)] = 1, mood: Annotated[str, typer.Option(help="How to end.")] = "well"
) -> int:
    if mood == "busy":
        raise DataFolderInUse("the data folder is in use by process 7")
    if mood == "interrupted":
        raise KeyboardInterrupt
    if mood == "contradictory":
        raise typer.BadParameter("--a and --b exclude each other")
    if mood == "grouped":
        raise ExceptionGroup("unhandled errors in a TaskGroup", [InvalidUsage("the worker could not start")])
    if mood == "broken":
        raise ZeroDivisionError
    return count - 1


def end(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr("sys.argv", ["work", *arguments])
    with pytest.raises(SystemExit) as ended:
        output.run(app, "work")
    return ended.value.code


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ([], 0),
        (["--count", "131"], 130),
        (["--help"], 0),
        (["--count", "0"], 1),
        (["--count", "many"], 1),
        (["--nonsense"], 1),
        (["surplus"], 1),
        (["--mood", "busy"], 1),
        (["--mood", "contradictory"], 1),
        (["--mood", "grouped"], 1),
        (["--mood", "interrupted"], 130),
    ],
)
def test_a_program_ends_with_the_exit_code_of_the_contract(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int
) -> None:
    assert end(monkeypatch, *arguments) == code


@pytest.mark.parametrize("arguments", [["--count", "0"], ["--nonsense"], ["surplus"]])
def test_a_usage_error_shows_the_usage_the_error_with_its_id_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    end(monkeypatch, *arguments)

    printed = capsys.readouterr()
    usage, error, hint = printed.err.splitlines()
    assert usage.startswith("Usage: work")
    assert error.startswith("error: ")
    assert error.endswith("[ERR-PYOCO-0018]")
    assert hint.startswith("hint: ")
    assert printed.out == ""


def test_an_error_of_the_catalogue_is_printed_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end(monkeypatch, "--mood", "busy")

    assert capsys.readouterr().err == (
        f"error: the data folder is in use by process 7 [ERR-PYOCO-0032]\nhint: {DataFolderInUse.hint}\n"
    )


def test_an_error_in_an_exception_group_is_printed_like_any_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    end(monkeypatch, "--mood", "grouped")

    assert capsys.readouterr().err.splitlines()[0] == "error: the worker could not start [ERR-PYOCO-0018]"


def test_an_unexpected_exception_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["work", "--mood", "broken"])

    with pytest.raises(ZeroDivisionError):
        output.run(app, "work")


@pytest.mark.parametrize(
    ("variables", "japanese"),
    [
        ({"LANG": "ja_JP.UTF-8"}, True),
        ({"LC_ALL": "C", "LANG": "ja_JP.UTF-8"}, False),
        ({"LC_ALL": "", "LC_MESSAGES": "ja", "LANG": "C"}, True),
        ({}, False),
    ],
)
def test_errors_are_japanese_in_a_japanese_locale(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variables: dict[str, str], japanese: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    output.print_error(DataFolderInUse("pid 7"))

    printed = capsys.readouterr().err
    assert (DataFolderInUse.message_ja in printed) is japanese
    assert (DataFolderInUse.hint_ja in printed) is japanese


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("run not found", "runが見つかりません"),
        ("the run ended an hour ago", "runが見つかりません: the run ended an hour ago"),
    ],
)
def test_a_message_is_printed_in_one_language_with_its_detail(detail: str, expected: str) -> None:
    assert output.with_japanese("runが見つかりません", detail) == expected
