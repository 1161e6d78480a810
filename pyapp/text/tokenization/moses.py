"""The tokenizers of XLM and FlauBERT: words as Moses finds them, by the library sacremoses, and byte-pair encoding,
whose last piece of a word ends with "</w>".

Source: tokenization_xlm.py and tokenization_flaubert.py of transformers (Apache 2.0). In a tokenizer.json such a
tokenizer has a pre_tokenizer of the type KIND, which the libraries of tokenizers do not have: MosesBackend finds the
words, and gives them to a library.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError, OptionError
from pyapp.text.documents import added_token, bpe_model, document, template
from pyapp.text.tokenization.vocabulary_files import END_OF_WORD, checked_vocabulary, token_name, usable_merges

KIND = "Moses"
# By the tokenizer's class: the language whose rules are used, as in transformers.
LANGUAGES = {"XLMTokenizer": "en", "FlaubertTokenizer": "fr"}
NAMES = {
    "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "sep_token": "</s>",
    "cls_token": "</s>", "mask_token": "<special1>",
}  # fmt: skip
SPECIAL = tuple(f"<special{number}>" for number in range(10))
HINT = "pip install 'pyapp[moses]'"
NEAR = 8  # characters in which a word's next character is looked for
# Of replace-unicode-punctuation.perl of Moses: characters, and what stands for them.
_FULL, _HALF = "，、”“∶：？《》）！（；１」「０３２５６９７８４～’━〈〉【】％", ',,""::?"")!(;1""032569784~\'-<>[]%'
SIGNS = dict(zip(_FULL, _HALF, strict=True)) | {"…": "..."}
LANGUAGE = re.compile("[a-z]{2,3}")  # its code
STOPS = re.compile(r"[。．]\s*")


def moses_document(
    vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]], settings: Mapping[str, Any], where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tokenizer.json of a vocab.json with its merges, and the settings with the names of special tokens. `settings`
    (tokenizer_config.json) has the `tokenizer_class`, do_lowercase_and_remove_accent (of XLM, default True) and
    do_lowercase (of FlauBERT, default False). FileFormatError where the vocabulary lacks a special token.
    """
    vocabulary = checked_vocabulary(vocabulary, where)
    names = {role: token_name(settings, role, usual) for role, usual in NAMES.items()}
    first, last, unknown = (names[role] for role in ("bos_token", "sep_token", "unk_token"))
    for name in (first, last, unknown):
        if name not in vocabulary:
            raise FileFormatError(f"the vocabulary has no {name!r:.40}", where=where)
    language = LANGUAGES[settings["tokenizer_class"]]
    plain = settings.get("do_lowercase_and_remove_accent", True) is not False and language == "en"
    step = {
        "type": KIND, "language": language, "without_accents": plain,
        "lowercase": settings.get("do_lowercase") is True and language != "en", "composed": language != "en",
    }  # fmt: skip
    ends = [(last, vocabulary[last])]
    special = dict.fromkeys((*names.values(), *SPECIAL))
    made = document(
        bpe_model(
            vocabulary, usable_merges(merges, vocabulary), unk_token=unknown, end_of_word_suffix=END_OF_WORD
        ),
        added_tokens=[added_token(vocabulary[name], name) for name in special if name in vocabulary],
        pre_tokenizer=step,
        post_processor=template([(first, vocabulary[first])], ends, between=ends, second_type=1),
        decoder={"type": "Replace", "pattern": {"String": END_OF_WORD}, "content": " "},
    )  # fmt: skip
    return made, {**names, **settings}


@dataclass(frozen=True)
class Words:
    """What finds the words of a text, by the pre_tokenizer of a tokenizer.json."""

    without_accents: bool
    lowercase: bool
    composed: bool
    normalize: Callable[[str], str]
    tokenize: Callable[[str], Sequence[str]]

    @classmethod
    def of(cls, step: Mapping[str, Any], where: str) -> Words:
        """OptionError where sacremoses is not installed."""
        try:
            from sacremoses import MosesPunctNormalizer, MosesTokenizer
        except ImportError as error:
            raise OptionError(
                "the words of this vocabulary are found by sacremoses, which is not installed", where=where, hint=HINT
            ) from error
        language = str(step.get("language"))
        if not LANGUAGE.fullmatch(language):
            raise FileFormatError(f"the language {language!r:.40} of the pre_tokenizer is not known", where=where)
        without, lowercase, composed = (step.get(flag) is True for flag in ("without_accents", "lowercase", "composed"))
        tokenizer, more = MosesTokenizer(lang=language), {}
        if step.get("dashes") is True:
            more["aggressive_dash_splits"] = True
        return cls(
            without, lowercase, composed, MosesPunctNormalizer(lang=language).normalize,
            lambda text: tokenizer.tokenize(text, return_str=False, escape=step.get("escaped") is True, **more),
        )  # fmt: skip

    def folded(self, text: str) -> str:
        """The characters as the vocabulary has them."""
        if self.without_accents:
            text = unicodedata.normalize("NFD", text.lower())
            return "".join(character for character in text if unicodedata.category(character) != "Mn").lower()
        return text.lower() if self.lowercase else text

    def __call__(self, text: str) -> list[str]:
        """The words of a text without special tokens."""
        if self.composed:
            text = unicodedata.normalize("NFC", text.replace("``", '"').replace("''", '"'))
        text = text.lower() if self.lowercase else text
        text = "".join(SIGNS.get(character, character) for character in STOPS.sub(". ", text))
        text = self.normalize(text)
        text = "".join(character for character in text if unicodedata.category(character)[0] != "C")
        words = " ".join(self.tokenize(text))
        return (self.folded(words) if self.without_accents else words).split()


class MosesBackend:
    """Splits texts by such a tokenizer.json; names of added tokens are these tokens. `library` makes what does the
    byte-pair encoding, of the tokenizer.json of words with spaces between them.
    """

    def __init__(self, json_text: str, library: Callable[[str], Any], where: str = "tokenizer.json") -> None:
        whole = json.loads(json_text)
        self._words = Words.of(whole["pre_tokenizer"], where)
        names = sorted(filter(None, (entry["content"] for entry in whole.get("added_tokens") or [])), key=len)
        self._split = re.compile("(" + "|".join(map(re.escape, reversed(names))) + ")") if names else None
        self._names = {*names}
        self._library = library(json.dumps({**whole, "pre_tokenizer": {"type": "WhitespaceSplit"}}, ensure_ascii=False))

    def _spaced(self, text: str) -> list[str]:
        """The words and special tokens of a text."""
        found: list[str] = []
        for part in [text] if self._split is None else self._split.split(text):
            found += [part] if part in self._names else self._words(part)
        return found

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return list(self._library.encode(" ".join(self._spaced(text))))

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text, and the characters [start, end) of each: the next ones that look like its own."""
        words = self._spaced(text)
        ids, spans = self._library.encode_with_offsets(" ".join(words))
        seen = [
            (own, place) for place, character in enumerate(text)
            for own in self._words.folded(SIGNS.get(character, character)) if not own.isspace()
        ]  # fmt: skip
        places: list[int] = []  # of the characters of the words and the spaces between them
        at, last = 0, 0
        for number, word in enumerate(words):
            places += [last] if number else []
            for character in word:
                near = range(at, min(len(seen), at + NEAR))
                same = next((number for number in near if seen[number][0] == character), None)
                last = seen[at if same is None else same][1] if at < len(seen) else last
                at = at if same is None else same + 1
                places.append(last)
        return list(ids), [(places[start], places[end - 1] + 1) for start, end in spans]
