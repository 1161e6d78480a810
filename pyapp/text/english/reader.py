"""English texts as phonemes, in the form of misaki that Kokoro reads: IPA with one sign for each diphthong and each
affricate (A, I, O, Q, W, Y, ʤ, ʧ), and punctuation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from pyapp.dataclass import dataclass

from .dictionary import Dictionary
from .letters import LetterSounds
from .numbers import CURRENCIES, code, spoken
from .stress import CONSONANTS, FIRST, SECOND, VOWELS, emphasised, joined, stressed, unstressed
from .uses import use

PUNCTUATION = frozenset(';:,.!?—…"“”()')
APART = frozenset(("number", "amount", "version", "clock", "short", "symbol"))  # kinds with a space around them
PAUSES = PUNCTUATION - frozenset('"“”()')
SYMBOLS = {
    "%": "percent", "&": "and", "+": "plus", "@": "at", "=": "equals", "°": "degrees", "§": "section", "#": "number",
    "×": "times", "÷": "divided by", "<": "less than", ">": "greater than", "*": "",
}  # fmt: skip
_LOOKS_LIKE = str.maketrans({
    "‘": "'", "’": "'", "ʼ": "'", "`": "'", "«": "“", "»": "”", "„": "“", "‹": "“", "›": "”", "–": "—", "―": "—",
    "‐": "-", "‑": "-", "−": "-", "[": "(", "]": ")", "{": "(", "}": ")", "。": ".", "、": ",",
})  # fmt: skip
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<amount>[$£€]\s?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?(?P<scale>\s(thousand|million|billion|trillion)\b)?)"
    r"|(?P<clock>\d{1,2}:[0-5]\d(?!\d|:))"
    r"|(?P<version>\d+(\.\d+){2,})"
    r"|(?P<number>(?<![\w.])-?((\d{1,3}(,\d{3})+|\d+)(\.\d+)?|\.\d+)(st|nd|rd|th|'?s)?(?!\w))"
    r"|(?P<initials>([A-Za-z]\.){2,}[A-Za-z]?(?![A-Za-z]))"
    r"|(?P<short>(?i:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc)\.|No\.(?=\s\d))"
    r"|(?P<word>'?[^\W_]+('[^\W\d_]+)*'?)"
    r"|(?P<dash>\s-+\s|--+)"
    r"|(?P<ellipsis>\.\.+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_IN_FULL = {
    "mr.": "mister", "mrs.": "missus", "ms.": "miss", "dr.": "doctor", "prof.": "professor", "st.": "saint",
    "jr.": "junior", "sr.": "senior", "vs.": "versus", "etc.": "et cetera", "no.": "number",
}  # fmt: skip
_PIECES = re.compile(r"[^\W\d_]?[^\W\d_]*?[a-z](?=[A-Z])|[A-Z]+(?=[A-Z][a-z])|[^\W\d_]+(?:'[^\W\d_]+)*|\d+|'+")


@dataclass(frozen=True)
class _Token:
    """`text` of a kind (a group of _TOKEN)."""

    kind: str
    text: str


@dataclass(frozen=True)
class _Place:
    """What a word's sounds depend on: the two words before it, the one after it, and those of the sentence, in small
    letters; whether the next sound is a vowel (None: there is none, or a pause); whether the sentence is in capitals.
    """

    earlier: str = ""
    before: str = ""
    after: str = ""
    words: frozenset[str] = frozenset()
    vowel: bool | None = None
    loud: bool = False


class EnglishReader:
    """Reads texts with a dictionary. `unknown` gives the phonemes of a word that it lacks."""

    def __init__(self, dictionary: Dictionary, unknown: Callable[[str], str]) -> None:
        self._dictionary, self._unknown = dictionary, unknown

    @classmethod
    def of_dialect(cls, dialect: str, unknown: Callable[[str], str] | None = None) -> EnglishReader:
        """American ("us") or British ("gb") English. Without `unknown`, letters tell how a word sounds.
        ModuleNotFoundError without the package misaki, which has the dictionary.
        """
        return cls(Dictionary.of_dialect(dialect), unknown or LetterSounds.of_dialect(dialect).read)

    def read(self, text: str) -> str:
        """The phonemes of a text. What is neither a word, a number nor punctuation is left out."""
        tokens = _tokens(text)
        words = [token.text.lower() if token.kind in ("word", "initials") else "" for token in tokens]
        sentence, loud = frozenset(words), text.isupper()
        sounding = [at for at, token in enumerate(tokens) if token.kind != "space"]
        found = ["" if token.kind != "space" else " " for token in tokens]
        vowel: bool | None = None
        for order in range(len(sounding) - 1, -1, -1):
            at = sounding[order]
            earlier, before = (words[sounding[order - back]] if order >= back else "" for back in (2, 1))
            after = words[sounding[order + 1]] if order + 1 < len(sounding) else ""
            found[at] = self._sounds(tokens[at], _Place(earlier, before, after, sentence, vowel, loud))
            vowel = _next_vowel(found[at], vowel)
        for at in range(1, len(tokens)):
            apart = {tokens[at - 1].kind, tokens[at].kind} & APART
            if apart and not PUNCTUATION & {found[at][:1], found[at - 1][-1:]}:
                found[at] = f" {found[at]}"
        sounds = re.sub(r"\s+", " ", "".join(found)).strip()
        return re.sub(r" (?=[;:,.!?…”)])", "", sounds).replace("ɾ", "T").replace("ʔ", "t")

    def _sounds(self, token: _Token, place: _Place) -> str:
        text = token.text
        match token.kind:
            case "word":
                return self._word(text, place)
            case "initials":
                return self._dictionary.spelled(text) or ""
            case "number" | "amount":
                return self._number(text)
            case "version":
                first, *more = text.split(".")
                return self._phrase([*code(first), *(word for part in more for word in ("point", *code(part)))])
            case "short":
                return self._phrase(_IN_FULL[text.lower()].split())
            case "clock":
                hour, minute = map(int, text.split(":"))
                end = ["o'clock"] if not minute else code(f"{minute:02}") if minute > 9 else ["oh", *code(str(minute))]
                return self._phrase([*code(str(hour)), *end])
        if text in PUNCTUATION:
            return text
        return self._phrase(SYMBOLS[text].split()) if text in SYMBOLS else ""

    def _phrase(self, words: list[str]) -> str:
        return " ".join(filter(None, (self._plain(word) for word in words)))

    def _plain(self, word: str) -> str:
        """A word by itself. "point" in a number has no stress."""
        found = self._dictionary.form(word, "DEFAULT", False) or self._new(word)
        return unstressed(found) if word == "point" else found

    def _number(self, text: str) -> str:
        currency, scale = text[:1] if text[:1] in CURRENCIES else "", text.partition(" ")[2]
        digits = text.removeprefix(currency).removesuffix(f" {scale}" if scale else "").strip()
        found = spoken(digits, "" if scale else currency)
        if found is None:
            return ""
        words, plural = found
        if scale:
            words = [*words, scale, f"{CURRENCIES[currency][0]}s"]
        sounds = self._phrase(words)
        return self._dictionary.plural(sounds) if plural and sounds else sounds

    def _word(self, text: str, place: _Place) -> str:
        """A word as it is written, or its parts: HTML5, iPhone, l'art."""
        whole = self._known(text, place)
        if whole is not None:
            return whole
        if re.fullmatch("[A-Z]{2,}'?s", text) and (letters := self._dictionary.spelled(text[:-1])):
            return self._dictionary.plural(letters)  # PCs
        pieces = _PIECES.findall(text)
        if len(pieces) < 2:
            return self._new(text)
        parts = [(piece, self._piece(piece, place)) for piece in pieces]
        mixed = any(piece.isdigit() for piece in pieces)
        return " ".join(sounds for _, sounds in parts if sounds) if mixed else joined(parts)

    def _piece(self, piece: str, place: _Place) -> str:
        if piece.isdigit():
            return self._phrase(code(piece))
        found = self._known(piece, place)
        return self._new(piece) if found is None else found

    def _known(self, text: str, place: _Place) -> str | None:
        """The phonemes of a word that the dictionary has, or a form of it."""
        small = text.lower()
        special = self._special(text, small, place)
        if special is not None:
            return special
        capitals = len(text) > 1 and text.isupper()
        entry = self._dictionary.entry(text)
        if entry is None and capitals and not place.loud and self._dictionary.entry(small, True) is None:
            return self._dictionary.spelled(text) if text.isascii() and text.isalpha() else None
        word = text if entry is not None and not text.islower() else small
        uses = entry if isinstance(entry, dict) else self._dictionary.entry(small)
        role = use(place.earlier, place.before, place.after, place.words, uses) if isinstance(uses, dict) else "DEFAULT"
        if capitals and not place.loud and isinstance(entry, dict) and entry.get("NOUN", "") is None:
            return self._dictionary.spelled(text)
        for form in dict.fromkeys((word, small, small.removesuffix("'"), small.removeprefix("'"))):
            if form and (found := self._dictionary.form(form, role, place.vowel is None)) is not None:
                return found if text.islower() else emphasised(found) if capitals else stressed(found, SECOND)
        return None

    def _special(self, text: str, small: str, place: _Place) -> str | None:
        """Words whose sounds depend on what follows."""
        match small:
            case "a":
                letter = place.vowel is None or (text == "A" and place.before not in ("", "and", "but"))
                return "ˈA" if letter else "ɐ"
            case "an" if text != "AN" or place.loud:
                return "ɐn"
            case "am" if text != "AM" or place.loud:
                return "ˈæm" if place.vowel is None else "ɐm"
            case "i" if text == "I":
                return "ˌI"
            case "to":
                return {None: "tu", False: "tə", True: "tʊ"}[place.vowel]
            case "the":
                return "ði" if place.vowel else "ðə"
            case "in" if text != "IN" or place.loud:
                return f"{FIRST if place.vowel is None else ''}ɪn"
            case "used":
                past = place.after == "to" and place.before not in ("be", "is", "was")
                return self._dictionary.chosen(small, "VBD" if past else "DEFAULT", False)
        return None

    def _new(self, word: str) -> str:
        """A word that the dictionary lacks, by its letters."""
        letters = "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if "a" <= c <= "z")
        if not letters:
            return ""
        if len(letters) < len([c for c in word if c.isalpha()]) and letters != word.lower():
            return ""  # another script
        found = self._dictionary.form(letters, "DEFAULT", False) if letters != word.lower() else None
        if found is None and not set(letters) & set("aeiouy"):
            found = self._dictionary.spelled(letters)
        return found or self._unknown(letters)


def _tokens(text: str) -> list[_Token]:
    """The words, numbers, punctuation and spaces of a text."""
    clean = unicodedata.normalize("NFKC", text.translate(_LOOKS_LIKE)).translate(_LOOKS_LIKE)
    tokens: list[_Token] = []
    opened = False
    for match in _TOKEN.finditer(clean):
        kind, found = str(match.lastgroup), match.group()
        if match["dash"]:
            kind, found = "other", "—"
        elif match["ellipsis"]:
            kind, found = "other", "…"
        elif found in SYMBOLS:
            kind = "symbol"
        elif found == '"':
            opened = not opened
            found = "“" if opened else "”"
        tokens.append(_Token(kind, found))
    return tokens


def _next_vowel(phonemes: str, following: bool | None) -> bool | None:
    """Whether the first sound is a vowel; None for a pause; as before where nothing sounds."""
    for sound in phonemes:
        if sound in PAUSES:
            return None
        if sound in VOWELS or sound in CONSONANTS:
            return sound in VOWELS
    return following
