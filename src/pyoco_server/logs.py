"""Log records as lines on stdout, as JSON objects or as text for people; the fields are part of the contract.

A line shows its origin, the original exception and the caller's `extra`. It never shows secrets of the configuration,
and a record that cannot be written never stops the program.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from types import FrameType
from typing import TextIO

import orjson

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import LoggingFailed, PyocoError
from pyoco_server.log_context import log_fields

# The attributes of every record; others are from the caller. `color_message` is uvicorn's copy of its message.
OWN_ATTRIBUTES = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}
USERINFO_IN_URL = re.compile(r"(\w://)[^/\s\"@]+@")
# A shorter secret would match ordinary text.
SHORTEST_SECRET = 6
UVICORN_ACCESS = "uvicorn.access"
UVICORN_LOGGERS = ("uvicorn", "uvicorn.error", UVICORN_ACCESS, "uvicorn.asgi")


def configure_logging(service: str = "pyoco-server:http", config: NatsBackendConfig | None = None) -> None:
    """Send all log records of this process to stdout in the configured format; repeated calls are harmless.

    Removes uvicorn's own handlers, so that its lines look like all others. Other handlers of the root logger stay.
    """
    config = config or NatsBackendConfig.from_env()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # JSON is UTF-8 regardless of the locale; a lone surrogate must not lose the line.
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    handler = LineHandler(sys.stdout)
    handler.setFormatter((JsonLines if config.log_format == "json" else TextLines)(service, config))
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, LineHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(config.log_level)
    for name in UVICORN_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        # The gateway has an access log of its own; uvicorn's would show queries.
        logger.propagate = name != UVICORN_ACCESS
        logger.setLevel(logging.NOTSET)


class Lines(logging.Formatter):
    """What both formats share: the time, the facts of a record, and the removal of secrets."""

    def __init__(self, service: str, config: NatsBackendConfig) -> None:
        super().__init__()
        self.service = service
        self.utc = config.log_utc
        self.include_traceback = config.log_include_traceback
        self.secrets = [one for one in (config.nats_token, config.auth_pepper) if len(one) >= SHORTEST_SECRET]

    def time(self, record: logging.LogRecord) -> str:
        """RFC 3339 with milliseconds, in UTC or in local time with its offset."""
        instant = datetime.fromtimestamp(record.created, tz=UTC)
        text = (instant if self.utc else instant.astimezone()).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def facts(self, record: logging.LogRecord) -> dict[str, object]:
        """The ids of the present request, the `extra` of the caller and the facts of the exception."""
        given = {key: value for key, value in record.__dict__.items() if key not in OWN_ATTRIBUTES}
        facts: dict[str, object] = {**log_fields(), **given}
        if not self.include_traceback:
            facts.pop("exc_traceback", None)  # of a task's exception, which was raised in another process
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PyocoError):
            facts = {"err_id": error.err_id, "msg_id": error.msg_id, **error.facts, **facts}
        return facts

    def without_secrets(self, line: str) -> str:
        """The line without secrets. A last resort: secrets should not be logged in the first place."""
        for secret in self.secrets:
            line = line.replace(secret, "***")
        return USERINFO_IN_URL.sub(r"\1***@", line) if "@" in line else line


class JsonLines(Lines):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": self.time(record),
            "service": self.service,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "pathname": record.pathname,
            "lineno": record.lineno,
            "func": record.funcName,
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line |= {"exc_type": type(error).__name__, "exc_message": str(error)}
            if self.include_traceback:
                line["exc_traceback"] = "".join(traceback.format_exception(error))
            if frames := traceback.extract_tb(error.__traceback__):
                line["exc_origin"] = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}"
        if record.stack_info:
            line["stack"] = record.stack_info
        # Twice: these fields come first and must not be overwritten.
        return self.without_secrets(_json(line | self.facts(record) | line))

    def short(self, level: int, name: str, message: str, facts: Mapping[str, object], origin: FrameType) -> str:
        """The same line without a record."""
        now = datetime.now(tz=UTC) if self.utc else datetime.now().astimezone()
        line: dict[str, object] = {
            "ts": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "service": self.service,
            "level": logging.getLevelName(level),
            "logger": name,
            "message": message,
            "pathname": origin.f_code.co_filename,
            "lineno": origin.f_lineno,
            "func": origin.f_code.co_name,
        }
        return self.without_secrets(_json({**line, **log_fields(), **facts, **line}))


class TextLines(Lines):
    """Lines for a terminal: the same facts, without source locations."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {key}={_in_line(value)}" for key, value in self.facts(record).items())
        line = f"{self.time(record)} {record.levelname:<8} {record.name}: {record.getMessage()}{facts}"
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self.include_traceback:
            line += "\n" + "".join(traceback.format_exception(error)).rstrip()
        elif error is not None:
            line += f"\n{type(error).__name__}: {error}"
        if record.stack_info:
            line += f"\n{record.stack_info}"
        return self.without_secrets(line)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes to a stream; a record that cannot be written is replaced by a line that says so."""

    def write_line(self, line: str) -> None:
        """Write a line that is complete; raises what the stream raises."""
        with self.lock or contextlib.nullcontext():
            self.stream.write(line + self.terminator)
            self.stream.flush()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        stand_in = {
            "name": record.name,
            "msg": LoggingFailed.message(),
            "levelno": logging.ERROR,
            "levelname": "ERROR",
            "pathname": record.pathname,
            "lineno": record.lineno,
            "funcName": record.funcName,
            "exc_type": type(sys.exc_info()[1]).__name__,
            **LoggingFailed.ids(),
        }
        line = self.format(logging.makeLogRecord(stand_in))
        # Stdout may be broken. If stderr is broken too, nothing can be reported.
        for stream in (self.stream, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                print(line, file=stream, flush=True)
                return


def log_often(logger: logging.Logger, level: int, message: str, facts: Mapping[str, object]) -> None:
    """`logger.log` for lines of every request: at a tenth of its cost where lines are JSON."""
    if not logger.isEnabledFor(level):
        return
    handlers = logging.getLogger().handlers
    handler = handlers[0] if len(handlers) == 1 else None  # another one may want records
    if isinstance(handler, LineHandler) and isinstance(handler.formatter, JsonLines):
        with contextlib.suppress(OSError, ValueError):
            handler.write_line(handler.formatter.short(level, logger.name, message, facts, sys._getframe(1)))
            return
    logger.log(level, message, extra=dict(facts))


def _in_line(value: object) -> str:
    """The fact without line breaks and terminal escapes: it may be a user's text."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def _json(line: dict[str, object]) -> str:
    try:
        # Dataclasses use their repr, which hides secrets.
        options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
        return orjson.dumps(line, default=repr, option=options).decode()
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, a cycle: all have a repr
        plain = {str(key): value if isinstance(value, str | int | None) else repr(value) for key, value in line.items()}
        return json.dumps(plain)
