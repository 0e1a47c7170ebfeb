"""Tokens of a graph → its terms, by the grammar of pyoco 0.8. Does not check whether tasks and pipes exist.

    pipeline = term (">>" term)*
    term     = name | name ":" name | pipe(name) | switch(on=…){ case: branch; … default: branch }
             | repeat(count=…){ pipeline } | foreach(over=…){ pipeline } | until(cond=…){ pipeline }

Some graphs that pyoco runs but its own `check` reports (an unused argument, a duplicate case) are refused here: they do
not run as their author intends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyoco_server.domain.flow_yaml.expressions import fault_in
from pyoco_server.domain.flow_yaml.graph_tokens import GraphFault, Token, tokens

MAX_NESTING = 32
MAX_TERMS = 4096  # pyoco: dsl/graph.py, MAX_PIPE_EXPANDED_TERMS

_VALUES = ("name", "number", "text", "template")
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "switch": ("on",),
    "repeat": ("count", "collect"),
    "foreach": ("over", "item", "index", "collect"),
    "until": ("cond", "max_iter", "collect"),
}
_COLLECT_MODES = ("list", "last", "first", "flatten")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class TaskTerm:
    """A task, optionally under another name."""

    task: str
    node: str | None
    line: int


@dataclass(frozen=True, slots=True)
class PipeTerm:
    """A reference to a pipe."""

    pipe: str
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """A loop with one body, or a switch with its branches, the default last."""

    bodies: tuple[Pipeline, ...]
    line: int


Term = TaskTerm | PipeTerm | Block
Pipeline = tuple[Term, ...]


def parse(text: str, nesting: int = 0) -> Pipeline:
    """The pipeline in `text`; `GraphFault` names what is wrong."""
    if nesting > MAX_NESTING:
        raise GraphFault(f"nested deeper than {MAX_NESTING} levels", 1)
    parser = _Parser(tokens(text), nesting)
    pipeline = parser.pipeline(("end",))
    parser.expect("end")
    return pipeline


class _Parser:
    """Reads two tokens ahead, so that a long text costs nothing after its first fault."""

    def __init__(self, source: Iterator[Token], nesting: int) -> None:
        self._source = source
        self._token = next(source)
        self._ahead = next(source, self._token)
        self._nesting = nesting
        self._terms = 0

    def pipeline(self, stops: tuple[str, ...]) -> Pipeline:
        terms = [self._term()]
        while self._token.kind == ">>":
            self._advance()
            terms.append(self._term())
        if self._token.kind not in stops:
            raise self._unexpected("'>>' or " + " or ".join(_kind_name(stop) for stop in stops))
        return tuple(terms)

    def expect(self, *kinds: str) -> Token:
        token = self._token
        if token.kind not in kinds:
            raise self._unexpected(" or ".join(_kind_name(kind) for kind in kinds))
        self._advance()
        return token

    def _advance(self) -> None:
        self._token, self._ahead = self._ahead, next(self._source, self._ahead)

    def _unexpected(self, wanted: str) -> GraphFault:
        found = self._token
        what = "its end" if found.kind == "end" else repr(found.value[:60])
        return GraphFault(f"{wanted} expected, found {what}", found.line)

    def _term(self) -> Term:
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise GraphFault(f"more than {MAX_TERMS} terms", self._token.line)
        token, ahead = self._token, self._ahead
        if token.kind != "name" or ahead.kind != "(":
            return self._task()
        self._advance()
        if token.value == "pipe":
            return self._pipe(token)
        if token.value not in _ARGUMENTS:
            known = ", ".join(["pipe", *_ARGUMENTS])
            raise GraphFault(f"{token.value[:60]!r} cannot be called; there are {known}", token.line)
        return self._block(token)

    def _task(self) -> TaskTerm:
        first = self.expect("name")
        if self._token.kind != ":":
            return TaskTerm(first.value, None, first.line)
        self._advance()
        task = self.expect("name")
        if self._token.kind == "(":
            raise GraphFault(f"only a task can be named; {first.value[:60]!r} names a {task.value[:60]}(…)", first.line)
        return TaskTerm(task.value, first.value, first.line)

    def _pipe(self, token: Token) -> PipeTerm:
        self.expect("(")
        name = self.expect("name", "text").value
        self.expect(")")
        return PipeTerm(name, token.line)

    def _block(self, token: Token) -> Block:
        _check_arguments(token, self._arguments(token))
        self.expect("{")
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise GraphFault(f"nested deeper than {MAX_NESTING} levels", token.line)
        bodies = self._branches(token) if token.value == "switch" else (self.pipeline(("}",)),)
        self._nesting -= 1
        self.expect("}")
        return Block(bodies, token.line)

    def _arguments(self, block: Token) -> dict[str, str]:
        given: dict[str, str] = {}
        self.expect("(")
        while self._token.kind != ")":
            name = self.expect("name")
            if name.value not in _ARGUMENTS[block.value] or name.value in given:
                known = ", ".join(_ARGUMENTS[block.value])
                raise GraphFault(f"{block.value}(…) takes {known}, each once, not {name.value[:60]!r}", name.line)
            self.expect("=")
            given[name.value] = self.expect(*_VALUES).value
            if self._token.kind != ",":
                break
            self._advance()
            if self._token.kind == ")":
                raise self._unexpected("an argument")
        self.expect(")")
        return given

    def _branches(self, switch: Token) -> tuple[Pipeline, ...]:
        cases: dict[str, Pipeline] = {}
        default: Pipeline | None = None
        while self._token.kind != "}":
            if self._token.kind == ";":
                self._advance()
                continue
            case = self.expect(*_VALUES)
            self.expect(":")
            branch = self._branch()
            if case.kind == "name" and case.value == "default":
                if default is not None:
                    raise GraphFault("a switch has one default", case.line)
                default = branch
            elif case.value in cases:
                raise GraphFault(f"the case {case.value[:60]!r} is defined twice in one switch", case.line)
            else:
                _check_case(case)
                cases[case.value] = branch
        if not cases and default is None:
            raise GraphFault("a switch needs at least one case", switch.line)
        return (*cases.values(), *(() if default is None else (default,)))

    def _branch(self) -> Pipeline:
        if self._token.kind == "text" and self._ahead.kind in (";", "}"):
            quoted = self.expect("text")
            try:
                return parse(quoted.value, self._nesting + 1)
            except GraphFault as fault:
                raise GraphFault(fault.what, quoted.line + fault.line - 1) from fault
        return self.pipeline((";", "}"))


def _kind_name(kind: str) -> str:
    return {"name": "a name", "number": "a number", "text": "a text in quotes", "template": "{{…}}"}.get(
        kind, "its end" if kind == "end" else repr(kind)
    )


def _check_arguments(block: Token, given: Mapping[str, str]) -> None:
    for fault in _faults(block.value, given):
        raise GraphFault(fault, block.line)


def _faults(block: str, given: Mapping[str, str]) -> Iterator[str]:
    required = _ARGUMENTS[block][0]
    value = given.get(required, "")
    if not value:
        yield f"{block}(…) needs {required}="
    elif required == "count" and value.isdigit():
        yield from _not_whole("count=", value, 0)
    elif fault := fault_in(value):
        yield fault
    if "max_iter" in given:
        yield from _not_whole("max_iter=", given["max_iter"], 1)
    if given.get("collect", "") not in ("", *_COLLECT_MODES):
        yield f"collect= is one of {', '.join(_COLLECT_MODES)}, not {given['collect'][:60]!r}"
    for name in ("item", "index"):
        if name in given and not _IDENTIFIER.fullmatch(given[name]):
            yield f"{name}= is a name, not {given[name][:60]!r}"


def _check_case(case: Token) -> None:
    if case.value.isdigit():
        for fault in _not_whole("a case", case.value, 0):
            raise GraphFault(fault, case.line)


def _not_whole(name: str, text: str, low: int) -> Iterator[str]:
    # isdigit() accepts ², which int() refuses; more than 18 digits do not fit 64 bits.
    if not text.isdecimal() or len(text) > 18 or int(text) < low:
        yield f"{name} is a whole number from {low}, not {text[:60]!r}"
