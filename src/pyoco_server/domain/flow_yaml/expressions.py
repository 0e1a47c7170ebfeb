"""Whether pyoco accepts an expression in a graph (a path, or arithmetic on $ctx and $env). Evaluates nothing."""

from __future__ import annotations

import ast
import re

# Python's own parser is not safe against arbitrarily deep expressions.
MAX_EXPRESSION_CHARS = 1_000

_PATH = re.compile(r"[A-Za-z_][\w.]*")
_REFERENCE = re.compile(r"\$(?:ctx|env)\.[A-Za-z_][\w.]*")
_PARTS = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.And, ast.Or, ast.Not),
    *(ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.In, ast.NotIn),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Pow, ast.USub, ast.UAdd, ast.Constant, ast.Load),
)
_STAND_IN = "_ctx"  # texts that contain it were refused before


def fault_in(raw: str) -> str | None:
    """What is wrong with the expression, or None."""
    text = raw.strip()
    if text.startswith("{{") and text.endswith("}}"):
        text = text[2:-2].strip()
    if not text:
        return "an expression is empty"
    if len(text) > MAX_EXPRESSION_CHARS:
        return f"an expression has more than {MAX_EXPRESSION_CHARS} characters"
    if "_ctx" in text or "_env" in text:
        return f"{text!r}: write $ctx. and $env., and no name with _ctx or _env in it"
    if "$ctx." in text or "$env." in text:
        return _fault_in_formula(text)
    if not _PATH.fullmatch(text):
        return f"{text!r} is neither a path such as params.count nor a formula with $ctx. or $env. in it"
    head, dot, rest = text.partition(".")
    if head in ("ctx", "env") and dot and not _PATH.fullmatch(rest):
        return f"{text!r} names nothing behind {head}."
    return None


def _fault_in_formula(text: str) -> str | None:
    python = _REFERENCE.sub(lambda found: f"{_STAND_IN}('{found[0][5:]}')", text)
    if "$" in python:
        return f"{text!r}: references have the form $ctx.name or $env.NAME"
    try:
        tree = ast.parse(python, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"{text!r} is not a formula"
    for part in ast.walk(tree):
        if isinstance(part, ast.Call):
            if not (isinstance(part.func, ast.Name) and len(part.args) == 1 and isinstance(part.args[0], ast.Constant)):
                return f"{text!r} calls something"
        elif isinstance(part, ast.Name):
            if part.id != _STAND_IN:
                return f"{text!r} uses the name {part.id!r}; only $ctx. and $env. can be referred to"
        elif not isinstance(part, _PARTS):
            return f"{text!r} uses {type(part).__name__}, which formulas here do not have"
    return None
