"""A Japanese terminal: help pages and usage errors."""

from __future__ import annotations

import pytest

from pyoco_server.cli import admin, output, server, worker
from pyoco_server.cli.client import program
from pyoco_server.cli.japanese_help import fill, width
from pyoco_server.http_client.errors import GatewayUnreachable

PROGRAMS = {"pyoco-server": server, "pyoco-worker": worker, "pyoco-server-admin": admin, "pyoco-client": program}


def run(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> int:
    monkeypatch.setenv("LC_ALL", "ja_JP.UTF-8")
    monkeypatch.setattr("sys.argv", [name, *arguments])
    with pytest.raises(SystemExit) as ended:
        output.run(PROGRAMS[name].app, name)
    return int(str(ended.value.code))


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_is_japanese_and_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    code = run(monkeypatch, name, "--help")

    printed = capsys.readouterr().out
    assert code == 0
    assert printed.startswith(f"使い方: {name} [OPTIONS]")
    assert "\nオプション:\n" in printed
    assert "このメッセージを表示して終了します。" in printed
    assert "\n  例: pyoco-" in printed
    assert max(width(line) for line in printed.splitlines()) <= 80


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("pyoco-client nosuch", "コマンド 'nosuch' はありません。"),
        ("pyoco-client submitt", "コマンド 'submitt' はありません。もしかして: 'submit'"),
        ("pyoco-client job", "コマンドを指定してください。"),
        ("pyoco-client list --bogus", "オプション --bogus はありません"),
        ("pyoco-client list --limitt 3", "オプション --limitt はありません（候補: --limit）"),
        ("pyoco-client list --limit", "オプション '--limit' には値が必要です。"),
        ("pyoco-client list --limit x", "'--limit' の値が不正です: 整数にしてください（整数として読み取れません）"),
        ("pyoco-client list --limit 900", "'--limit' の値が不正です: 200 以下の値にしてください"),
        ("pyoco-client list --status x", "'--status' の値が不正です: "),
        ("pyoco-client list x y", "余分な引数があります（x y）"),
        ("pyoco-client submit-yaml", "オプション '--workflow-file' が必要です。"),
        ("pyoco-client approve", "引数 'EXECUTION_ID' が必要です。"),
        ("pyoco-client completion", "が必要です。選択肢: bash, zsh, fish"),
        ("pyoco-client get ../x", "'../x' は run の id ではありません"),
        ("pyoco-client submit --flow-name f --param x", "--param 'x' は key=value の形式ではありません"),
        ("pyoco-client submit hello name", "引数 'name' は key=value の形式ではありません"),
        ("pyoco-client submit --flow-name f --params [1]", "--params は JSON オブジェクトにしてください（現在は配列）"),
        ("pyoco-server up --wait=yes", "オプション --wait はありません"),
        ("pyoco-server up --with-worker=yes", "オプション '--with-worker' に値は指定できません。"),
        ("pyoco-server up --nats-url nats://a --with-nats-bootstrap", "は同時に指定できません"),
        ("pyoco-worker --tags a.b", "--tags: tag は A-Z a-z 0-9 _ - の 1～64 文字にしてください"),
        ("pyoco-server-admin api-key create --tenant a --scopes x", "'x' という scope はありません。使える scope: "),
    ],
)
def test_a_usage_error_is_japanese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, expected: str
) -> None:
    code = run(monkeypatch, *command.split())

    printed = capsys.readouterr().err
    assert code == 1
    assert expected in printed
    assert "エラー: コマンドライン引数または設定が不正です: " in printed
    assert "\n対処: " in printed
    assert "\n修正例: " in printed


def test_lines_break_between_characters_but_not_in_front_of_a_full_stop() -> None:
    assert list(fill("これは pyoco-client の説明です。", 12)) == ["これは", "pyoco-client", "の説明です。"]
    assert list(fill("一二三四五。", 10)) == ["一二三四", "五。"]


def test_errors_of_the_sdk_are_in_the_language_of_the_client() -> None:
    import httpx

    detail = "the gateway at http://x cannot be reached: [Errno 111] Connection refused, tried 4 times"
    asked = httpx.Request("GET", "http://x", headers={"Accept-Language": "ja"})

    japanese = GatewayUnreachable(detail, request=asked)
    english = GatewayUnreachable(detail, request=httpx.Request("GET", "http://x"))

    assert japanese.detail == "http://x の Gateway に接続できません: 接続が拒否されました（4 回試行）"
    assert japanese.hint == "Gateway を起動し（pyoco-server up）、アドレスを確認してください。"
    assert (english.detail, english.hint) == (detail, GatewayUnreachable.hint)
