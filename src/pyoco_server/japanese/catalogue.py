"""Finds the translation of a text whose facts are already filled in.

A key with placeholders, `"{count} bytes are more than {most}"`, stands for every text of that form. The translation
names the same placeholders in any order; `{cause:ja}` is the fact in Japanese, if it is a known text itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

# What is beyond stays English: no text of the code needs it, and a hostile one must not cost much.
MAX_CHARS = 2000
MAX_PARTS = 8
MAX_DEPTH = 4
# A key with fewer characters between facts (`{text} is not {what}`) has the form of many sentences.
MIN_CHARS = 10


class Catalogue:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._exact: dict[str, str] = {}
        self._forms: list[_Form] = []
        for english, japanese in texts.items():
            form = _Form(english, japanese)
            if form.names:
                self._forms.append(form)
            else:
                self._exact[form.literals[0]] = japanese.format()
        self._forms.sort(key=lambda form: form.specificity, reverse=True)

    def translate(self, text: str, depth: int = 0) -> str:
        """The text in Japanese, else those of its parts that are known: between semicolons, behind a name and a colon.

        What is unknown stays English.
        """
        if len(text) > MAX_CHARS or depth > MAX_DEPTH:
            return text
        if text in self._exact:
            return self._exact[text]
        parts = text.split("; ", MAX_PARTS)
        found = [self._find_behind_names(part, depth) for part in parts]
        whole = self._find_behind_names(text, depth) if None in found else None
        # Several errors are one text: the form of one of them may fit the whole by chance.
        return whole or "; ".join(translated or part for translated, part in zip(found, parts, strict=True))

    def find(self, text: str, depth: int = 0) -> str | None:
        """The translation of the whole text; None if no key has its form."""
        found = self._exact.get(text)
        if found is not None:
            return found
        for form in self._forms:
            facts = form.facts_in(text)
            if facts is None or (form.is_loose and facts[form.names[-1]] not in self._exact):
                continue
            shown = {name: _Fact(fact, self, depth + 1) for name, fact in facts.items()}
            return form.japanese.format_map(shown)
        return None

    def _find_behind_names(self, text: str, depth: int) -> str | None:
        """The translation of a known text, also behind names and colons (`body.tag: Field required`)."""
        before, rest = "", text
        for _ in range(MAX_PARTS):
            found = self.find(rest, depth)
            if found is not None:
                return f"{before}{found}"
            name, colon, rest = rest.partition(": ")
            before += f"{name}{colon}"
            if not colon:
                return None
        return None


class _Form:
    """A key as the literals around its placeholders."""

    __slots__ = ("_begins_with_text", "is_loose", "japanese", "literals", "names", "specificity")

    def __init__(self, english: str, japanese: str) -> None:
        self.japanese = japanese
        self.literals = [""]
        self.names: list[str] = []
        for literal, name, _, _ in Formatter().parse(english):
            self.literals[-1] += literal
            if name is not None:
                self.names.append(name)
                self.literals.append("")
        self.specificity = sum(map(len, self.literals))
        # Texts that mean something else have this form too: it fits only if its last fact is a known text.
        self.is_loose = self.specificity < MIN_CHARS and not self.literals[0] and not self.literals[-1]
        self._begins_with_text = bool(self.names) and f"{{{self.names[0]}:ja}}" in japanese

    def facts_in(self, text: str) -> dict[str, str] | None:
        """The facts of a text of this form. Leftmost literals first, without backtracking: linear in the text."""
        first, *between, last = self.literals
        at, end = len(first), len(text) - len(last)
        if end < at or not text.startswith(first) or not text.endswith(last):
            return None
        facts = []
        for literal in between:
            found = text.find(literal, at, end)
            if found < 0:
                return None
            facts.append(text[at:found])
            at = found + len(literal)
        facts.append(text[at:end])
        # `limit: 5 are more than 3` is about the limit: a fact in front is a text only where the translation says so.
        if not first and not self._begins_with_text and (": " in facts[0] or "; " in facts[0]):
            return None
        return dict(zip(self.names, facts, strict=True))


class _Fact:
    """A fact within a translation."""

    __slots__ = ("_catalogue", "_depth", "_text")

    def __init__(self, text: str, catalogue: Catalogue, depth: int) -> None:
        self._text = text
        self._catalogue = catalogue
        self._depth = depth

    def __format__(self, spec: str) -> str:
        return self._catalogue.translate(self._text, self._depth) if spec == "ja" else self._text
