"""Log lines: fields of the contract, the original exception, no secrets, and no failure of the program."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import RunNotFound
from pyoco_server.logs import UVICORN_ACCESS, UVICORN_LOGGERS, LineHandler, configure_logging

logger = logging.getLogger("test.logs")
Configure = Callable[..., Callable[[], list[str]]]


@pytest.fixture
def configure(capsys: pytest.CaptureFixture[str]) -> Iterator[Configure]:
    """Configures logging with the given settings; what it returns reads the lines written since."""
    root = logging.getLogger()
    level = root.level

    def configure(service: str = "pyoco-server:http", **settings: Any) -> Callable[[], list[str]]:
        for foreign in [one for one in root.handlers if not isinstance(one, LineHandler)]:
            root.removeHandler(
                foreign
            )  # pytest's handlers raise where ours must not; pytest restores them for the next test
        configure_logging(service, NatsBackendConfig(**settings))
        return lambda: capsys.readouterr().out.splitlines()

    yield configure
    for ours in [one for one in root.handlers if isinstance(one, LineHandler)]:
        root.removeHandler(ours)
    root.setLevel(level)


def fail() -> NoReturn:
    raise ValueError("too odd")


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_a_line_has_time_origin_and_message(configure: Configure) -> None:
    lines = configure("pyoco-server:worker")

    logger.info("attempt %s", "finished", extra={"run_id": "r1", "seconds": 0.42})

    (line,) = map(json.loads, lines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line.pop("lineno") > 0
    assert line == {
        "service": "pyoco-server:worker",
        "level": "INFO",
        "logger": "test.logs",
        "message": "attempt finished",
        "pathname": __file__,
        "func": "test_a_line_has_time_origin_and_message",
        "run_id": "r1",
        "seconds": 0.42,
    }


def test_an_error_has_its_exception_and_origin(configure: Configure) -> None:
    lines = configure()

    try:
        fail()
    except ValueError:
        logger.exception("it failed")

    (line,) = map(json.loads, lines())
    assert (line["level"], line["exc_type"], line["exc_message"]) == ("ERROR", "ValueError", "too odd")
    assert re.fullmatch(r".*test_logs\.py:\d+ in fail", line["exc_origin"])
    assert line["exc_traceback"].startswith("Traceback (most recent call last)")
    assert 'raise ValueError("too odd")' in line["exc_traceback"]


def test_the_original_exception_is_in_the_traceback(configure: Configure) -> None:
    lines = configure()

    try:
        try:
            fail()
        except ValueError as error:
            raise RunNotFound(run_id="r1") from error
    except RunNotFound:
        logger.exception("no such run")

    (line,) = map(json.loads, lines())
    assert line["exc_type"] == "RunNotFound"
    assert "ValueError: too odd" in line["exc_traceback"]


def test_an_error_of_the_catalogue_has_its_ids_and_facts(configure: Configure) -> None:
    lines = configure()

    logger.error("no such run", exc_info=RunNotFound(run_id="r1", tag="old"), extra={"tag": "new"})

    (line,) = map(json.loads, lines())
    assert (line["err_id"], line["msg_id"], line["run_id"]) == ("ERR-PYOCO-0005", "MSG-PYOCO-0005", "r1")
    assert line["tag"] == "new"


def test_a_traceback_can_be_disabled(configure: Configure) -> None:
    lines = configure(log_include_traceback=False)

    logger.error("it failed", exc_info=ValueError("too odd"))

    (line,) = map(json.loads, lines())
    assert line["exc_message"] == "too odd"
    assert "exc_traceback" not in line


def test_a_fact_cannot_overwrite_a_field_of_the_line(configure: Configure) -> None:
    lines = configure()

    logger.info("hello", extra={"service": "forged", "level": "forged", "ts": "forged"})

    assert "forged" not in lines()[0]


def test_local_time_has_its_offset(configure: Configure) -> None:
    lines = configure(log_utc=False)

    logger.info("hello")

    assert re.fullmatch(r".*T\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)", json.loads(lines()[0])["ts"])


def test_lines_below_the_level_are_not_written(configure: Configure) -> None:
    lines = configure(log_level="WARNING")

    logger.info("quiet")
    logger.warning("loud")

    assert [json.loads(line)["message"] for line in lines()] == ["loud"]


def test_the_text_format_is_readable(configure: Configure) -> None:
    lines = configure(log_format="text")

    logger.error("it failed", exc_info=RunNotFound("no run r1"), extra={"run_id": "r1"})

    first, *rest = lines()
    assert first.endswith("ERROR    test.logs: it failed err_id=ERR-PYOCO-0005 msg_id=MSG-PYOCO-0005 run_id=r1")
    assert rest[-1].endswith("RunNotFound: no run r1")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_fact_cannot_start_a_new_line(configure: Configure, log_format: str) -> None:
    lines = configure(log_format=log_format)

    logging.getLogger("a").warning("run failed", extra={"flow_name": "x\n2026 ERROR made up\x1b[31m", "tag": "été"})

    (line,) = lines()
    assert "\x1b" not in line
    assert "été" in line


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_secrets_of_the_configuration_are_never_written(configure: Configure, log_format: str) -> None:
    secrets: dict[str, Any] = {
        "nats_token": "t0ken-1234",
        "auth_pepper": "p3pper-1234",
        "nats_url": "nats://zoe:passw0rd@host:4222",
    }
    lines = configure(log_format=log_format, **secrets)

    logger.info("token t0ken-1234", extra={"config": NatsBackendConfig(**secrets), "pepper": "p3pper-1234"})
    logger.error("cannot connect to nats://zoe:passw0rd@host", exc_info=OSError("nats://zoe:passw0rd@host refused"))

    written = "\n".join(lines())
    assert "host" in written
    assert not [secret for secret in ("t0ken-1234", "p3pper-1234", "zoe", "passw0rd") if secret in written]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [1, None]}, {"a": [1, None]}),
        ({1: "one"}, {"1": "one"}),
        (b"bytes", "b'bytes'"),
        ({"set"}, "{'set'}"),
        (2**80, 2**80),
        ("lone \udc80", "lone \udc80"),
        ("日本語", "日本語"),
        (float("nan"), None),
    ],
)
def test_any_value_of_a_fact_is_serialised(configure: Configure, value: object, expected: object) -> None:
    lines = configure()

    logger.info("fact", extra={"fact": value})

    assert json.loads(lines()[0])["fact"] == expected


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_an_unwritable_record_is_replaced_by_a_line_that_reports_it(configure: Configure, log_format: str) -> None:
    lines = configure(log_format=log_format)

    logger.info("%d apples", "no number")
    logger.info("fact", extra={"fact": Unprintable()})
    logger.info("still here")

    first, second, third = lines()
    assert "ERR-PYOCO-0013" in first
    assert "TypeError" in first
    assert "ERR-PYOCO-0013" in second
    assert "still here" in third


def test_a_closed_stdout_does_not_stop_the_program(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stdout)
    configure()
    stdout.close()

    logger.info("into the void")

    assert "ERR-PYOCO-0013" in capsys.readouterr().err


def test_lines_are_utf8_in_every_locale(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    configure()

    logger.info("実行")

    assert json.loads(raw.getvalue())["message"] == "実行"


def test_configuring_twice_writes_every_line_once(configure: Configure) -> None:
    configure()
    lines = configure()

    logger.info("once")

    assert len(lines()) == 1
    assert len([one for one in logging.getLogger().handlers if isinstance(one, LineHandler)]) == 1


def test_uvicorns_lines_have_the_same_format_and_its_access_log_is_off(configure: Configure) -> None:
    foreign = logging.StreamHandler(io.StringIO())
    logging.getLogger("uvicorn.access").addHandler(foreign)
    logging.getLogger("uvicorn.access").propagate = False

    lines = configure()
    for name in UVICORN_LOGGERS:
        logging.getLogger(name).info("%s", name, extra={"color_message": "\x1b[1m"})

    written = [json.loads(line) for line in lines()]
    assert [line["message"] for line in written] == [name for name in UVICORN_LOGGERS if name != UVICORN_ACCESS]
    assert not [line for line in written if "color_message" in line]
    assert foreign not in logging.getLogger("uvicorn.access").handlers


def test_the_default_settings_are_those_of_the_environment(
    configure: Configure, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYOCO_LOAD_DOTENV", "0")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")

    configure_logging(service="pyoco-server:worker")
    logger.info("hello")

    assert capsys.readouterr().out.endswith("INFO     test.logs: hello\n")
