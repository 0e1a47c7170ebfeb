"""Every text that people can meet has its Japanese: details of errors, validation, help pages, the OpenAPI document.

A failure lists the texts that lack it; each needs a line in the module of its area below `pyoco_server/japanese`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic_core import _pydantic_core

from pyoco_server import japanese
from pyoco_server.cli import admin, server, worker
from pyoco_server.cli.client import program
from pyoco_server.config import SETTINGS, NatsBackendConfig
from pyoco_server.domain.execution.rejection import RejectionReason
from pyoco_server.domain.flow_yaml import _FORBIDDEN
from pyoco_server.domain.queries.explain_texts import TEXTS as EXPLANATIONS
from pyoco_server.domain.strict_yaml import _AMBIGUOUS
from pyoco_server.http_api import create_app
from pyoco_server.http_api.responses.error_hints import GUARD_HINTS
from support.texts import own_literals, shape, texts_in_source

IS_JAPANESE = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
PROGRAMS = {"pyoco-server": server, "pyoco-worker": worker, "pyoco-server-admin": admin, "pyoco-client": program}
# Parts of a text that are translated within the whole, and texts that are commands or data.
PARTS = frozenset({"flow.yaml, line {}", "line {} of it", "tried {} times"})
NOT_LANGUAGE = re.compile(r"Graph\(|-[FH] |--\w|\S+: \{\}$|\{\}: \{\} \{\}$")


def fail_with(found: list[str], area: str) -> None:
    if found:
        heading = f"without Japanese; add to a module of pyoco_server/japanese/{area}:"
        pytest.fail("\n".join((heading, *found)), pytrace=False)


def assert_japanese(texts: list[tuple[str, str]], area: str) -> None:
    """Fail with the texts that are not Japanese when they are shown, and their places."""
    found = []
    for text, place in {text: place for place, text in texts}.items():
        filled = re.sub(r"\{\}", "X1", text).replace("{{", "{").replace("}}", "}")
        shown = japanese.japanese(filled, area)
        if not all(map(IS_JAPANESE.search, shown.split("\n\n"))) and japanese.catalogue(area).find(filled) is None:
            found.append(f"{place}: {text}")
    fail_with(found, area)


def test_details_and_messages() -> None:
    texts = [one for one in texts_in_source() if one[1] not in PARTS and not NOT_LANGUAGE.match(one[1])]

    assert len(texts) > 250
    # Each has a key of its own: one of a similar form would mean something else.
    keys = {shape(key) for module in japanese.AREAS["messages"] for key in module_texts("messages", module)}
    fail_with([f"{place}: {text}" for place, text in texts if text not in keys], "messages")


def test_rejections_of_commands() -> None:
    assert_japanese([(reason.name, reason.value) for reason in RejectionReason], "messages")


def test_what_settings_accept() -> None:
    # Choices (`json | text`) are words of the setting.
    words = {setting.accepts.words for setting in SETTINGS if " | " not in setting.accepts.words}

    assert_japanese([("accepts", one) for one in sorted(words)], "messages")


def test_faults_of_a_flow_yaml_that_stand_in_tables() -> None:
    texts = [("key", text) for text in _FORBIDDEN.values()]
    texts += [("yaml", f"flow.yaml, line 3: {{}} {text}") for text in _AMBIGUOUS.values()]

    assert_japanese(texts, "messages")


def test_messages_of_pydantic() -> None:
    errors = _pydantic_core.list_all_errors()
    templates = {error["message_template_python"] for error in errors}
    templates |= {error["message_template_json"] for error in errors if "message_template_json" in error}
    texts = [("pydantic", shape(template)) for template in sorted(templates)]

    assert len(texts) > 90
    assert_japanese(texts, "messages")


def test_hints_of_guards_and_explanations_have_the_same_facts_in_both_languages() -> None:
    pairs = [*GUARD_HINTS.values()]
    pairs += [pair for one in EXPLANATIONS.values() for pair in ((one[0], one[1]), (one[2], one[3]))]
    lost = [english for english, translated in pairs if not IS_JAPANESE.search(translated)]
    unknown = [english for english, translated in pairs if not facts(translated) <= facts(english)]

    assert (lost, unknown) == ([], [])


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_of_every_command_and_option(name: str) -> None:
    texts = list(help_texts(typer.main.get_command(PROGRAMS[name].app), name))

    assert texts
    assert_japanese(texts, "commands")


def test_the_openapi_document() -> None:
    texts = list(described(create_app(NatsBackendConfig()).openapi(), "openapi"))

    assert len(texts) > 300
    assert_japanese(texts, "openapi")


@pytest.mark.parametrize(("area", "module"), [(area, module) for area, of in japanese.AREAS.items() for module in of])
def test_a_translation_has_the_facts_of_its_key(area: str, module: str) -> None:
    texts = import_module(f"pyoco_server.japanese.{area}.{module}").TEXTS
    unknown = [key for key, text in texts.items() if not facts(text) <= facts(key)]
    not_japanese = [key for key, text in texts.items() if ":ja}" not in text and not IS_JAPANESE.search(text)]

    assert (unknown, not_japanese) == ([], [])


@pytest.mark.parametrize("area", japanese.AREAS)
def test_a_key_stands_in_one_module_and_every_module_is_listed(area: str) -> None:
    folder = Path(japanese.__file__).parent / area
    texts = [key for module in japanese.AREAS[area] for key in module_texts(area, module)]

    assert len(texts) == len(set(texts))
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(japanese.AREAS[area])


@pytest.mark.parametrize(
    "module", [one for one in japanese.AREAS["messages"] if one not in ("validation", "system", "usage")]
)
def test_a_key_is_a_text_of_the_code(module: str) -> None:
    known = own_literals()
    stale = [
        key
        for key in module_texts("messages", module)
        if not all(part.strip() in known for part in re.split(r"(?<!\{)\{\w+\}", key))
    ]

    assert stale == []


def test_a_key_of_the_help_or_of_the_openapi_document_is_shown_there() -> None:
    shown = {text for name, one in PROGRAMS.items() for _, text in help_texts(typer.main.get_command(one.app), name)}
    document = [text for _, text in described(create_app(NatsBackendConfig()).openapi(), "openapi")]
    shown |= {" ".join(paragraph.split()) for text in document for paragraph in text.split("\n\n")}
    # Written by the library around the texts of commands; named differently by older and newer versions of Python.
    around = ("Usage: ", "Options", "Arguments", "Commands", "required", "Show this message and exit.")
    phrases = {"Content Too Large", "Unprocessable Content", "Range Not Satisfiable"}
    phrases |= {"Request Entity Too Large", "Unprocessable Entity", "Requested Range Not Satisfiable"}
    phrases |= {status.phrase for status in HTTPStatus}

    keys = {
        key for area in ("commands", "openapi") for module in japanese.AREAS[area] for key in module_texts(area, module)
    }
    stale = [key for key in keys - shown - phrases - set(around) if "{" not in key.replace("{{", "")]

    assert stale == []


def module_texts(area: str, module: str) -> dict[str, str]:
    texts: dict[str, str] = import_module(f"pyoco_server.japanese.{area}.{module}").TEXTS
    return texts


def facts(text: str) -> set[str]:
    return set(re.findall(r"(?<!\{)\{(\w+)(?::ja)?\}", text))


def help_texts(command: Any, path: str) -> Iterator[tuple[str, str]]:
    if command.help:
        yield path, cleandoc(command.help).replace("{", "{{").replace("}", "}}")
    for parameter in command.params:
        if getattr(parameter, "help", None):
            yield f"{path} {parameter.name}", parameter.help.replace("{", "{{").replace("}", "}}")
    for name, below in getattr(command, "commands", {}).items():
        yield from help_texts(below, f"{path} {name}")


def described(node: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, list):
        for part in node:
            yield from described(part, place)
    elif isinstance(node, dict):
        for name, part in node.items():
            if name in ("summary", "description") and isinstance(part, str):
                yield f"{place}/{name}", part.replace("{", "{{").replace("}", "}}")
            elif name not in ("example", "examples", "default", "enum", "const"):
                yield from described(part, f"{place}/{name}")
