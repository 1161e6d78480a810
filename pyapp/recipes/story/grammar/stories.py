"""Small stories from a grammar: `story(seed, index)` is the same text on every platform.

A template holds
    {one|two|}          one of the alternatives, which may nest; an empty one leaves nothing
    [slot] [role.form]  a value that the plot chose; a capital letter here gives it one: [A.he] -> "She"
    @macro              a turn of phrase shared by many plots (words.MACROS)
and "a" becomes "an" before a vowel. In the spirit of TinyStories (Eldan and Li 2023,
https://arxiv.org/abs/2305.07759), which asked a large model for such stories; here a grammar writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyapp.recipes.chooser import Chooser
from pyapp.recipes.story.grammar import words
from pyapp.recipes.story.grammar.plots import PLOTS, Plot

HELD_OUT_SEED = 2_000_000_011
"""The held-out stories are those of this seed; training also skips any story that equals one of them."""

LONGEST = 200
"""Words in the longest story. A whole story fits into the model's context."""

_UNNAMED = ("neighbor", "owner", "seller")
_PRONOUNS = {"he": ("he", "him", "his"), "she": ("she", "her", "her")}
_TOKEN = re.compile(r"\{|\}|\||\[[A-Za-z][a-z0-9_.]*\]|@[a-z_]+|[^{}|\[\]@]+")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou](?!ne |niform|nicorn|seful))")
_LOOSE = re.compile(r" (?=[.,!?;])")  # the space that an empty alternative leaves


def story(seed: int, index: int) -> str:
    """The story number `index` of `seed`: 80 to 200 words in two to four paragraphs, divided by "\\n"."""
    teller = _Teller(Chooser(seed, index))
    while True:
        text = teller.tell()
        if len(text.split()) <= LONGEST:
            return text


def stories(seed: int, start: int = 0) -> Iterator[str]:
    """The stories of `seed` from number `start` on, without end."""
    index = start
    while True:
        yield story(seed, index)
        index += 1


def held_out_stories(count: int) -> list[str]:
    """The first `count` different held-out stories."""
    found: dict[str, None] = {}
    for text in stories(HELD_OUT_SEED):
        if len(found) == count:
            return list(found)
        found[text] = None
    raise AssertionError("stories() has no end")


class _Teller:
    """Writes one story, with the choices of `chooser`."""

    def __init__(self, chooser: Chooser) -> None:
        self._random = chooser.random
        self._choose = chooser.choose
        self._slots: dict[str, str] = {}
        self._taken: set[str] = set()

    def tell(self, plot: Plot | None = None) -> str:
        self._slots.clear()
        self._taken.clear()
        plot = plot or self._choose(PLOTS)
        self._bind_common()
        for role, kind in plot.cast.items():
            self._bind_role(role, kind)
        for slot, values in plot.picks.items():
            self._bind(slot, self._choose(values))
        for slot, value in self._choose(plot.variants).items():
            self._bind(slot, value)
        paragraphs = (self._expand(part) for part in re.split(r"\n\s*\n", plot.text.strip()))
        return "\n".join(_tidy(paragraph) for paragraph in paragraphs)

    def _choose_new(self, values: Sequence[str]) -> str:
        """A value that this story has not used yet, so that two characters never share a name or a species."""
        return self._take(self._choose([value for value in values if value not in self._taken]))

    def _choose_name(self, names: Sequence[str]) -> str:
        """Like _choose_new, but the first of `names` come more often: of 14, the first gets a quarter, the last 4 %."""
        free = [name for name in names if name not in self._taken]
        draw = self._random()
        return self._take(free[int(draw * draw * len(free))])

    def _take(self, value: str) -> str:
        self._taken.add(value)
        return value

    def _bind(self, slot: str, value: str) -> None:
        self._slots[slot] = self._expand(value)

    def _bind_common(self) -> None:
        common: Mapping[str, Sequence[str]] = {
            "trait": words.TRAITS,
            "home": words.HOMES,
            "hobby": words.HOBBIES,
            "age": ("three", "four", "five", "six", "seven"),
        }
        for slot, values in common.items():
            self._bind(slot, self._choose(values))

    def _bind_role(self, role: str, kind: str) -> None:
        kind, _, among = kind.partition(":")
        if kind in _UNNAMED:
            forms = _forms(f"the {kind}", self._choose(("she", "he")), kind=kind)
        else:
            forms = getattr(self, f"_{kind}")(among.split(",") if among else None)
        for form, value in forms.items():
            self._slots[f"{role}.{form}" if form else role] = value

    def _child(self, among: list[str] | None) -> dict[str, str]:
        gender = self._choose(among or ["she", "he"])
        name = self._choose_name(words.GIRLS if gender == "she" else words.BOYS)
        return _forms(name, gender, kind="girl" if gender == "she" else "boy")

    def _animal(self, among: list[str] | None) -> dict[str, str]:
        species = self._choose_new(among or list(words.ANIMALS))
        gender = self._choose(("she", "he"))
        name = self._choose_name(words.SHE_ANIMALS if gender == "she" else words.HE_ANIMALS)
        home, food = words.ANIMALS[species]
        return _forms(name, gender, kind=species, home=home, food=food)

    def _pet(self, among: list[str] | None) -> dict[str, str]:
        species = self._choose(among or ["dog", "cat", "puppy", "kitten"])
        return _forms(self._choose_new(words.PETS), self._choose(("she", "he")), kind=species)

    def _family(self, among: list[str] | None) -> dict[str, str]:
        name = self._choose_new(among or list(words.FAMILY))
        return _forms(name, words.FAMILY[name], kind=name.lower())

    def _expand(self, template: str) -> str:
        """Replaces alternatives from left to right, outer before inner; those not chosen draw no random number."""
        tokens = _TOKEN.findall(template)
        if "".join(tokens) != template:
            raise ValueError(f"a stray bracket in the template {template!r}")
        text, end = self._sequence(tokens, 0)
        if end != len(tokens):
            raise ValueError(f"a '{tokens[end]}' too many in the template {template!r}")
        return text

    def _sequence(self, tokens: list[str], at: int) -> tuple[str, int]:
        parts = []
        while at < len(tokens) and tokens[at] not in "|}":
            token = tokens[at]
            if token == "{":
                text, at = self._alternatives(tokens, at)
                parts.append(text)
                continue
            if token[0] == "[":
                token = self._slot(token[1:-1])
            elif token[0] == "@":
                token = self._expand(words.MACROS[token[1:]])
            parts.append(token)
            at += 1
        return "".join(parts), at

    def _alternatives(self, tokens: list[str], at: int) -> tuple[str, int]:
        """The text of the alternative chosen at the "{" at `at`, and the place after the matching "}"."""
        starts, depth, end = [at + 1], 1, at + 1
        while depth:
            if end == len(tokens):
                raise ValueError(f"a '{{' without its '}}' in the template {''.join(tokens)!r}")
            depth += {"{": 1, "}": -1}.get(tokens[end], 0)
            end += 1
            if depth == 1 and tokens[end - 1] == "|":
                starts.append(end)
        text, _ = self._sequence(tokens, self._choose(starts))
        return text, end

    def _slot(self, name: str) -> str:
        value = self._slots[name[0].lower() + name[1:]]
        return value[:1].upper() + value[1:] if name[0].isupper() else value


def _forms(name: str, gender: str, **others: str) -> dict[str, str]:
    he, him, his = _PRONOUNS[gender]
    return {"": name, "he": he, "him": him, "his": his, **others}


def _tidy(text: str) -> str:
    text = _LOOSE.sub("", " ".join(text.split()))
    return _ARTICLE.sub(r"\1n ", text)
