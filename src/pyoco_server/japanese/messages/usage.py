"""What typer refuses of a command line; of values it says what pydantic says."""

from __future__ import annotations

TEXTS = {
    "Missing command.": "コマンドを指定してください。",
    "No such command {name}.": "コマンド {name} はありません。",
    "No such command {name}. Did you mean {similar}?": "コマンド {name} はありません。もしかして: {similar}",
    "No such option: {name}": "オプション {name} はありません",
    "No such option: {name} (Possible options: {similar})": "オプション {name} はありません（候補: {similar}）",
    "Got unexpected extra argument(s) ({words})": "余分な引数があります（{words}）",
    "Got unexpected extra argument ({words})": "余分な引数があります（{words}）",
    "Got unexpected extra arguments ({words})": "余分な引数があります（{words}）",
    "Missing option {name}.": "オプション {name} が必要です。",
    "Missing argument {name}.": "引数 {name} が必要です。",
    "Missing option {name}. Choose from: {choices}": "オプション {name} が必要です。選択肢: {choices}",
    "Missing argument {name}. Choose from: {choices}": "引数 {name} が必要です。選択肢: {choices}",
    "Invalid value: {problem}": "値が不正です: {problem:ja}",
    "Invalid value for {name}: {problem}": "{name} の値が不正です: {problem:ja}",
    "Option {name} requires an argument.": "オプション {name} には値が必要です。",
    "Option {name} requires {count} arguments.": "オプション {name} には {count} 個の値が必要です。",
    "Argument {name} takes {count} values.": "引数 {name} には {count} 個の値が必要です。",
    "Option {name} does not take a value.": "オプション {name} に値は指定できません。",
    "Could not open file {name}: {reason}": "ファイル {name} を開けません: {reason:ja}",
    "{value} is not one of {choices}.": "{value} は選択肢 {choices} にありません。",
}
