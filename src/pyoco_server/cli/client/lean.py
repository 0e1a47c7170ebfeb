"""Commands that read their words without pydantic, which typer would load for any of them and which takes half of the
time of a short command. Knows the kinds of values that this program has, and no others.
"""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException


class Reading:
    """How the words of one option become its value; stands where typer keeps its own."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        try:
            return [_read(one, param) for one in value] if many else _read(value, param)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def _read(word: Any, param: Any) -> Any:
    descriptor = param.type_descriptor
    if descriptor.choices is not None:
        return _choice(word, descriptor.choices, case_sensitive=descriptor.parameter_info.case_sensitive)
    (kind,) = get_args(descriptor.annotation) if descriptor.is_list else (descriptor.annotation,)
    if kind in (int, float):
        return _number(word, kind, descriptor.parameter_info.min, descriptor.parameter_info.max)
    if kind not in (str, bool, Path):
        raise TypeError(f"--{param.name} is of a kind that is not read here: {kind}")
    return kind(word)


def _choice(word: Any, choices: tuple[Any, ...], *, case_sensitive: bool) -> Any:
    texts = [str(choice.value if isinstance(choice, Enum) else choice) for choice in choices]
    for choice, text in zip(choices, texts, strict=True):
        if str(word) == text or (not case_sensitive and str(word).casefold() == text.casefold()):
            return choice
    raise ValueError(f"{str(word)[:80]!r} is not one of {', '.join(texts)}")


def _number(word: Any, kind: type[int] | type[float], low: float | None, high: float | None) -> float:
    try:
        number = kind(word)
    except ValueError:
        raise ValueError(f"{str(word)[:80]!r} is not a {'whole ' if kind is int else ''}number") from None
    if not math.isfinite(number) or number < (-math.inf if low is None else low):
        raise ValueError(f"{word} is less than {low}" if math.isfinite(number) else f"{word} is no time or amount")
    if high is not None and number > high:
        raise ValueError(f"{word} is more than {high}")
    return number


def _lighten(parameters: list[Any]) -> None:
    reading = Reading()
    for parameter in parameters:
        if hasattr(parameter, "get_runtime_param"):
            vars(parameter)["get_runtime_param"] = lambda: reading


class LeanGroup(TyperGroup):
    """The program itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _lighten(self.get_params(ctx))
        return super().parse_args(ctx, args)


class LeanCommand(TyperCommand):
    """A command that also knows in which order its options were given: `ctx.meta["order"]`, one name per occurrence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _lighten(self.get_params(ctx))
        try:
            _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except TyperException as error:
            # The library forgets to say which command it was; without it there is no usage to show.
            vars(error)["ctx"] = ctx
            raise
        ctx.meta["order"] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)
