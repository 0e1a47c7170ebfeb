"""The error catalogue: unique ids, texts in both languages, and the texts of the contract."""

from __future__ import annotations

from collections import defaultdict

import pytest

from pyoco_server.errors import Kind, PyocoError, RunNotFound, catalogue

# The contract's table of messages.
CONTRACT = {
    "0001": "稼働確認に失敗しました",
    "0002": "リクエストが不正です",
    "0003": "NATSが利用できません",
    "0004": "孤児runが残っている可能性があります（best-effort cleanup失敗）",
    "0005": "runが見つかりません",
    "0006": "flowが見つかりません",
    "0007": "実行に失敗しました",
    "0008": "terminal状態の記録に失敗しました",
    "0009": "in_progress ACK の送信に失敗しました",
    "0010": "スナップショットが大きすぎます",
    "0011": "DLQへのpublishに失敗しました（best-effort）",
    "0012": "不正なジョブを受信しました",
    "0013": "ログ出力に失敗しました（best-effort）",
    "0014": "API key が必要です",
    "0015": "API key が無効です",
    "0016": "ワークフローファイルが大きすぎます",
}


def by_number() -> dict[str, list[type[PyocoError]]]:
    grouped = defaultdict(list)
    for error in catalogue():
        grouped[error.err_id.removeprefix("ERR-PYOCO-")].append(error)
    return grouped


@pytest.mark.parametrize(("number", "message"), CONTRACT.items())
def test_an_error_of_the_contract_has_the_japanese_text_of_the_contract(number: str, message: str) -> None:
    assert message in {error.message_ja for error in by_number()[number]}


@pytest.mark.parametrize("error", catalogue(), ids=lambda error: error.__name__)
def test_an_error_has_matching_ids_and_texts_in_both_languages(error: type[PyocoError]) -> None:
    assert error.err_id.removeprefix("ERR-") == error.msg_id.removeprefix("MSG-")
    assert error.message()
    assert error.message_ja != PyocoError.message_ja
    assert error.hint.endswith(".")
    assert error.hint_ja.endswith("。")


def test_ids_are_shared_only_where_the_contract_has_one_id_for_two_errors() -> None:
    shared = {number: {error.__name__ for error in errors} for number, errors in by_number().items() if len(errors) > 1}

    assert shared == {"0002": {"InvalidRequest", "RequestTooLarge"}}


def test_errors_that_share_an_id_differ_in_kind_exactly_if_they_differ_in_code() -> None:
    for number, errors in by_number().items():
        assert len({error.kind for error in errors}) == len({error.code for error in errors}), number


def test_an_error_without_a_detail_has_the_text_of_the_catalogue() -> None:
    error = RunNotFound(run_id="r1")

    assert str(error) == "run not found"
    assert error.facts == {"run_id": "r1"}
    assert error.kind is Kind.NOT_FOUND


def test_a_detail_replaces_the_text_of_the_catalogue() -> None:
    assert str(RunNotFound("no run r1")) == "no run r1"


def test_a_code_belongs_to_one_id() -> None:
    ids = {(error.code, error.err_id) for error in catalogue()}
    codes = {code for code, _ in ids}

    assert len(codes) == len(ids)
    assert all(code == code.upper() and code.replace("_", "").isalpha() for code in codes)
    assert PyocoError.code not in codes
