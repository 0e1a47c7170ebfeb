"""Interpretation of responses, from a gateway or a proxy."""

from __future__ import annotations

import httpx
import pytest

from pyoco_server.errors import Kind, catalogue
from pyoco_server.http_api.responses.problems import EXECUTIONS, JOBS, PDCA, RUNS, STATUS
from pyoco_server.http_client import answers, errors
from pyoco_server.http_client.answers import FailureKind
from pyoco_server.http_client.requests import get

REQUEST = httpx.Request("GET", "http://gateway/runs/r")
NOW = 1_000_000_000.0
BY_KIND = {
    Kind.INVALID: errors.InvalidRequest,
    Kind.TOO_LARGE: errors.TooLarge,
    Kind.UNAUTHENTICATED: errors.Unauthenticated,
    Kind.FORBIDDEN: errors.Forbidden,
    Kind.NOT_FOUND: errors.NotFound,
    Kind.CONFLICT: errors.Conflict,
    Kind.MISDIRECTED: errors.InvalidRequest,
    Kind.PRECONDITION: errors.Conflict,
    Kind.RANGE: errors.InvalidRequest,
    Kind.RATE_LIMITED: errors.Unavailable,
    Kind.UNAVAILABLE: errors.Unavailable,
    Kind.BAD_GATEWAY: errors.Unavailable,
    Kind.INTERNAL: errors.GatewayFailed,
}


def response(status: int, body: object = None, *, text: str = "", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is not None:
        return httpx.Response(status, json=body, headers=named, request=REQUEST)
    return httpx.Response(status, content=text.encode(), headers=named, request=REQUEST)


@pytest.mark.parametrize("declared", catalogue(), ids=lambda error: error.__name__)
def test_every_error_of_the_catalogue_becomes_an_exception_of_its_kind(declared: type) -> None:
    raised = declared("what is so")

    found = answers.error_of(
        response(STATUS[raised.kind], RUNS.body(raised, "en", 404, "/runs"), x_request_id="q-1"), NOW
    )

    assert isinstance(found, BY_KIND[raised.kind])
    assert isinstance(found, httpx.HTTPStatusError)
    assert (found.err_id, found.msg_id) == (raised.err_id, raised.msg_id)
    assert (found.detail, found.hint, found.request_id) == ("what is so", raised.hint, "q-1")
    assert raised.err_id in str(found)
    assert raised.hint in str(found)


@pytest.mark.parametrize("declared", catalogue(), ids=lambda error: error.__name__)
def test_every_error_is_the_same_in_the_format_of_executions(declared: type) -> None:
    raised = declared("what is so", guard="NODE_HELD")
    body = EXECUTIONS.body(raised, "en", 404, "/executions")

    found = answers.error_of(response(STATUS[raised.kind], body), NOW)

    assert isinstance(found, BY_KIND[raised.kind])
    assert (found.err_id, found.msg_id) == (raised.err_id, raised.msg_id)
    assert (found.detail, found.hint) == ("what is so", body["error"]["details"]["hint"])
    assert (found.code, found.guard) == (raised.code, "NODE_HELD")


@pytest.mark.parametrize("declared", catalogue(), ids=lambda error: error.__name__)
def test_every_error_is_the_same_in_the_format_of_jobs(declared: type) -> None:
    raised = declared("what is so", why="TOO_MANY_TAGS")
    status = STATUS[raised.kind]
    body = JOBS.body(raised, "ja", status, "/jobs")

    found = answers.error_of(response(status, body, content_type="application/problem+json"), NOW)

    assert isinstance(found, BY_KIND[raised.kind])
    assert (found.err_id, found.msg_id) == (raised.err_id, raised.msg_id)
    assert (found.code, found.guard) == (raised.code, "TOO_MANY_TAGS")
    assert (found.detail, found.message, found.hint) == ("what is so", raised.message_ja, raised.hint_ja)


@pytest.mark.parametrize("declared", catalogue(), ids=lambda error: error.__name__)
def test_every_error_of_pdca_has_its_code_and_message(declared: type) -> None:
    raised = declared("what is so")
    status = PDCA.statuses.get(raised.kind, STATUS[raised.kind])
    body = PDCA.body(raised, "en", status, "/pdca/recheck")

    found = answers.error_of(response(status, body), NOW)

    assert (found.code, found.detail) == (body["error"], body["message"])


def test_an_outage_of_pdca_is_unavailable_and_a_failure_is_not() -> None:
    body = {"error": "INTERNAL_ERROR", "message": "temporarily unavailable"}

    outage = answers.error_of(response(500, body, retry_after="2"), NOW)
    failure = answers.error_of(response(500, body), NOW)

    assert (type(outage), getattr(outage, "retry_after", None)) == (errors.Unavailable, 2.0)
    assert type(failure) is errors.GatewayFailed


def test_a_problem_of_another_server_keeps_its_detail() -> None:
    foreign = {"type": "about:blank", "title": "Too Many Requests", "status": 429, "detail": "slow down"}

    found = answers.error_of(response(429, foreign, content_type="application/problem+json"), NOW)

    assert isinstance(found, errors.Unavailable)
    assert (found.detail, found.err_id) == ("slow down", None)


@pytest.mark.parametrize("error", [{}, {"code": 1, "message": [], "details": "no"}, {"details": {"errId": 5}}])
def test_an_incomplete_error_of_executions_is_still_an_error(error: object) -> None:
    found = answers.error_of(response(409, {"error": error}), NOW)

    assert type(found) is errors.Conflict
    assert (found.code, found.guard, found.err_id) == (None, None, None)


@pytest.mark.parametrize(
    ("err_id", "status", "kind"),
    [
        ("ERR-PYOCO-0005", 404, errors.RunNotFound),
        ("ERR-PYOCO-0020", 404, errors.WorkerNotFound),
        ("ERR-PYOCO-0033", 404, errors.NotFound),
        ("ERR-PYOCO-0056", 404, errors.GraphNotFound),
        ("ERR-PYOCO-0030", 409, errors.CommandRejected),
        ("ERR-PYOCO-0057", 409, errors.GraphVersionConflict),
        ("ERR-PYOCO-0004", 503, errors.OrphanPossible),
        ("ERR-PYOCO-9999", 418, errors.UnexpectedAnswer),
    ],
)
def test_some_errors_have_their_own_class(err_id: str, status: int, kind: type[errors.PyocoHttpError]) -> None:
    assert type(answers.error_of(response(status, {"err_id": err_id}), NOW)) is kind


def test_a_page_of_a_proxy_gives_a_readable_error() -> None:
    page = "<html>\n<h1>502 Bad\x1b[31m Gateway</h1>" + "x" * 5000

    found = answers.error_of(response(502, text=page, content_type="text/html; charset=utf-8"), NOW)

    assert isinstance(found, errors.Unavailable)
    assert "GET http://gateway/runs/r answered with text/html: <html> <h1>502 Bad" in str(found)
    assert str(found).isprintable()
    assert len(str(found)) < 500


@pytest.mark.parametrize("charset", ["hex", "utf-16", "zip", "idna", "x" * 1000, ""])
def test_the_charset_of_a_response_is_ignored(charset: str) -> None:
    odd = response(404, text='{"err_id": "ERR-PYOCO-0005"}', content_type=f"application/json; charset={charset}")

    assert isinstance(answers.error_of(odd, NOW), errors.RunNotFound)


@pytest.mark.parametrize(
    "body", [[], 1, None, {"detail": 5, "err_id": [], "hint": {}}, {"detail": {"a": 1}}, {"errId": 5}]
)
def test_a_body_of_any_shape_gives_an_error(body: object) -> None:
    found = answers.error_of(response(500, body), NOW)

    assert isinstance(found, errors.GatewayFailed)
    assert (found.err_id, found.hint) == (None, None)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("Sun, 09 Sep 2001 01:47:10 GMT", 30.0),
        ("Sun, 09 Sep 2001 01:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("9" * 400, 999_999_999.0),
    ],
)
def test_retry_after_may_be_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert answers.error_of(response(503, {}, retry_after=header), NOW).retry_after == seconds


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (httpx.ConnectError("refused"), FailureKind.NOT_SENT),
        (httpx.ConnectTimeout("slow"), FailureKind.NOT_SENT),
        (httpx.PoolTimeout("busy"), FailureKind.NOT_SENT),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] expired"), FailureKind.FINAL),
        (httpx.UnsupportedProtocol("gopher"), FailureKind.FINAL),
        (httpx.ReadError("reset"), FailureKind.MAY_BE_DONE),
        (httpx.WriteError("reset"), FailureKind.MAY_BE_DONE),
        (httpx.ReadTimeout("slow"), FailureKind.MAY_BE_DONE),
        (httpx.RemoteProtocolError("gone"), FailureKind.MAY_BE_DONE),
    ],
)
def test_a_request_may_have_had_an_effect_only_after_the_connection_was_made(
    failure: httpx.RequestError, kind: FailureKind
) -> None:
    assert answers.failure_kind(failure) is kind


@pytest.mark.parametrize(
    ("status", "err_id", "kind"),
    [
        (503, "ERR-PYOCO-0003", FailureKind.MAY_BE_DONE),
        (503, "ERR-PYOCO-0004", FailureKind.MAY_BE_DONE),
        (503, "ERR-PYOCO-0031", FailureKind.MAY_BE_DONE),
        (503, None, FailureKind.MAY_BE_DONE),
        (502, None, FailureKind.MAY_BE_DONE),
        (504, None, FailureKind.MAY_BE_DONE),
        (500, "ERR-PYOCO-0034", FailureKind.FINAL),
        (404, "ERR-PYOCO-0005", FailureKind.FINAL),
        (422, "ERR-PYOCO-0002", FailureKind.FINAL),
        (302, None, FailureKind.FINAL),
    ],
)
def test_only_an_unavailable_gateway_is_retried(status: int, err_id: str | None, kind: FailureKind) -> None:
    failure = answers.error_of(response(status, {"err_id": err_id}), NOW)

    assert answers.failure_kind(failure) is kind


@pytest.mark.parametrize("text", ["<html>Welcome</html>", "", "[" * 100_000, "null"])
def test_an_unreadable_success_is_an_error(text: str) -> None:
    with pytest.raises(errors.UnexpectedAnswer, match="where a gateway's answer was expected"):
        answers.result(get("/runs/r"), response(200, text=text))
