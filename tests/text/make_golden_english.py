"""Writes golden_english.json: what misaki 0.9.4 and num2words make of English texts and numbers, and the words of
misaki's dictionaries that our reader looks up in them.

    python -m tests.text.make_golden_english     (needs misaki, num2words and spacy)

misaki's tagger needs a model that PyPI does not have. It decides between uses of a word such as "live", which the texts
here leave out; determiners, prepositions, numbers and punctuation are tagged by their letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import spacy
from misaki import en
from num2words import num2words

from pyapp.text.english.dictionary import Dictionary
from pyapp.text.english.letters import LetterSounds
from pyapp.text.english.reader import EnglishReader
from tests.text.english_texts import NUMBERS, READ_ALIKE, READ_BY_PLACE

PREPOSITIONS = "of in on at by for with from into over under about after before between through than like as".split()
TAGS = {
    **dict.fromkeys(("a", "an", "the"), "DT"), "to": "TO", "i": "PRP",
    **dict.fromkeys(PREPOSITIONS, "IN"),
    **dict.fromkeys("$£€", "$"), "(": "-LRB-", ")": "-RRB-", **dict.fromkeys(".!?", "."), ",": ",",
    **dict.fromkeys((":", ";", "—", "–", "…", "..."), ":"), "million": "CD",
}  # fmt: skip


def tagged(doc: Any) -> Any:
    for token in doc:
        number = re.fullmatch(r"[\d,.]*\d[\d,.]*", token.text)
        name = token.text.isupper() and len(token.text) > 1
        token.tag_ = "CD" if number else TAGS.get(token.text.lower(), "NNP" if name else "XX")
    return doc


def reference(dialect: str) -> Any:
    reader = en.G2P.__new__(en.G2P)  # its own __init__ downloads the tagger
    reader.version, reader.british, reader.unk, reader.fallback = None, dialect == "gb", "?", None
    reader.lexicon = en.Lexicon(reader.british)
    blank = spacy.blank("en")
    reader.nlp = lambda text: tagged(blank(text))
    return reader


class Noted(Mapping[str, Any]):
    """A dictionary that notes what is looked up in it."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.words, self.found = words, dict[str, Any]()

    def __getitem__(self, word: str) -> Any:
        self.found[word] = self.words[word]
        return self.words[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __len__(self) -> int:
        return len(self.words)


def main() -> None:
    golden: dict[str, Any] = {}
    for dialect in ("us", "gb"):
        whole = Dictionary.of_dialect(dialect)
        checked, others = Noted(whole._checked), Noted(whole._others)
        reader = EnglishReader(Dictionary(checked, others, dialect), LetterSounds.of_dialect(dialect).read)
        theirs = reference(dialect)
        pairs = []
        for text in READ_ALIKE:
            wanted, ours = theirs(text)[0], reader.read(text)
            if wanted != ours:
                print(f"{dialect}: {text}\n  {wanted}\n  {ours}")
            pairs.append([text, wanted])
        for text, _ in READ_BY_PLACE:
            reader.read(text)
        golden[dialect] = {"checked": checked.found, "others": others.found, "texts": pairs}
    say = {"cardinal": lambda n: num2words(n), "ordinal": lambda n: num2words(n, to="ordinal")}
    say["year"] = lambda n: num2words(n, to="year")
    golden["numbers"] = [
        [kind, number, re.sub(r"\band\b|[-,]", " ", say[kind](number)).split()] for kind, number in NUMBERS
    ]
    path = Path(__file__).with_name("golden_english.json")
    path.write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
