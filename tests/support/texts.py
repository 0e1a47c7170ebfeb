"""The English texts that people can meet, found in the source: details of errors and messages of programs.

A text is written as the key of a catalogue: `{}` stands for each fact.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import typer

import pyoco_server
from pyoco_server.errors import InternalError, LoggingFailed, PyocoError

SOURCE = Path(pyoco_server.__file__).parent
# Functions that take a text as an error does: their first argument is shown.
SPEAKERS = frozenset({"invalid", "reject", "_refusal", "YamlFault", "GraphFault", "BadParameter", "Doubt"})
# A ValueError of these packages becomes the detail of an error; elsewhere it is a fault of the program.
VALUES = ("http_api", "http_client", "cli/client/params.py", "adapters/flow_graph.py")
# Texts of these errors are for logs.
SILENT = (InternalError, LoggingFailed)
# Generated from `_async`; the catalogues themselves.
LEFT_OUT = ("http_client/_sync", "japanese", "testing")


# What functions return elsewhere is a detail too. Here it is stored (the error of a run), logged, or no language.
UNSHOWN = (
    "adapters/",
    "cli/",
    "domain/auth/api_keys.py",
    "domain/pdca/outcome.py",
    "domain/wheels/requirements.py",
    "http_api/api/jobs/stream_encoding.py",
    "http_api/openapi/docs_page.py",
    "services/maintenance/dead_jobs.py",
    "worker/",
)
LEAST_WORDS = 3


def shape(key: str) -> str:
    """A key without the names of its placeholders; neighbouring ones are one."""
    return re.sub(r"(?:\{\})+", "{}", re.sub(r"(?<!\{)\{[^{}]+\}(?!\})", "{}", key))


def texts_in_source() -> Iterator[tuple[str, str]]:
    """Every text with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if not name.startswith(LEFT_OUT):
            module = _Module(name, ast.parse(path.read_text("utf-8")))
            yield from module.texts()
            if not name.startswith(UNSHOWN):
                yield from module.returned()


def _names_of(error: type[PyocoError]) -> Iterator[str]:
    if error not in SILENT:
        yield error.__name__
        for variant in error.__subclasses__():
            yield from _names_of(variant)


class _Module:
    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree
        self.speakers = SPEAKERS | set(_names_of(PyocoError)) | ({"ValueError"} if name.startswith(VALUES) else set())
        self.assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    self.assigned.setdefault(target, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    self.assigned.setdefault(target, []).append(value)

    def texts(self) -> Iterator[tuple[str, str]]:
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            given = [keyword.value for keyword in node.keywords if keyword.arg == "detail"]
            if self._speaks(node.func):
                given += node.args[:1]
            for text in (text for one in given for text in self._shown(one)):
                if re.search("[a-zA-Z]{2}", text.replace("{}", "")) and " " in text:
                    yield f"{self.name}:{node.lineno}", text

    def returned(self) -> Iterator[tuple[str, str]]:
        """Sentences that functions return: faults whose callers raise the error."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
                for text in self._shown(node.value):
                    if len(re.findall("[a-zA-Z]{2,}", text.replace("{}", ""))) >= LEAST_WORDS:
                        yield f"{self.name}:{node.lineno}", text

    def _speaks(self, called: ast.expr) -> bool:
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        return name in self.speakers

    def _shown(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """The texts that an expression can be; parts that are chosen from several texts are texts of their own."""
        match node:
            case ast.Constant(value=str() as value):
                yield value.replace("{", "{{").replace("}", "}}")
            case ast.JoinedStr(values=values):
                yield shape("".join(self._part(one) for one in values))
                for one in values:
                    if isinstance(one, ast.FormattedValue):
                        yield from self._chosen(one.value, seen)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._shown(body, seen)
                yield from self._shown(orelse, seen)
            case ast.Subscript(value=value) | ast.NamedExpr(value=value):
                yield from self._shown(value, seen)
            case ast.Name(id=name) if name not in seen:
                for value in self.assigned.get(name, ()):
                    yield from self._shown(value, seen | {name})

    def _chosen(self, node: ast.expr, seen: frozenset[str]) -> Iterator[str]:
        if isinstance(node, ast.IfExp | ast.Name):
            for text in self._shown(node, seen):
                if len(text.replace("{}", "").split()) > 1:
                    yield text.strip(" ,;:")

    def _part(self, node: ast.expr) -> str:
        return "{}" if isinstance(node, ast.FormattedValue) else "".join(self._shown(node))


@cache
def own_literals() -> str:
    """Everything that stands between quotes in the code and in the library of its command lines."""
    found = []
    for folder in (SOURCE, Path(typer.__file__).parent):
        for path in sorted(folder.rglob("*.py")):
            if not path.relative_to(folder).as_posix().startswith(LEFT_OUT):
                nodes = ast.walk(ast.parse(path.read_text("utf-8")))
                found += [
                    node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
                ]
    return "\n".join(found).replace("{", "{{").replace("}", "}}")
