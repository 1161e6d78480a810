"""The tokenizer of fairseq's translators (FSMT): words as Moses finds them, byte-pair encoding, and a vocabulary for
each of the two languages.

Source: tokenization_fsmt.py of transformers (Apache 2.0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import FileFormatError, OptionError
from pyapp.text.documents import added_token, bpe_model, document, template
from pyapp.text.tokenization.moses import HINT, KIND
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.vocabulary_files import END_OF_WORD, checked_vocabulary, token_name, usable_merges

NAMES = {"bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


class PairTokenizer(Tokenizer):
    """Reads texts of one language, and writes those of another one: encodes with the source's vocabulary, decodes with
    the `target`'s. settings (tokenizer_config.json) has `langs`, the codes of both, and do_lower_case. FileFormatError
    where these are missing.
    """

    def __init__(
        self, source: Mapping[str, Any], target: Mapping[str, Any], merges: Sequence[tuple[str, str]],
        settings: Mapping[str, Any], end_ids: Sequence[int], where: str,
    ) -> None:  # fmt: skip
        names = {role: token_name(settings, role, usual) for role, usual in NAMES.items()}
        languages = settings.get("langs")
        if not isinstance(languages, list) or len(languages) != 2 or not all(isinstance(one, str) for one in languages):
            raise FileFormatError(
                f"langs are {languages!r:.60}, expected the codes of two languages", where=where,
                hint="Put the model's tokenizer_config.json beside it",
            )  # fmt: skip
        vocabulary = checked_vocabulary(source, where)
        for name in (names["sep_token"], names["unk_token"]):
            if name not in vocabulary:
                raise FileFormatError(f"the vocabulary has no {name!r:.40}", where=where)
        step = {
            "type": KIND, "language": languages[0], "without_accents": False, "composed": False,
            "lowercase": settings.get("do_lower_case") is True, "escaped": True, "dashes": True,
        }  # fmt: skip
        ends = [(names["sep_token"], vocabulary[names["sep_token"]])]
        special = [name for name in dict.fromkeys(names.values()) if name in vocabulary]
        made = document(
            bpe_model(
                vocabulary, usable_merges(merges, vocabulary), unk_token=names["unk_token"],
                end_of_word_suffix=END_OF_WORD,
            ),
            added_tokens=[added_token(vocabulary[name], name) for name in special],
            pre_tokenizer=step,
            post_processor=template([], ends, between=ends, second_type=0),
            decoder={"type": "Replace", "pattern": {"String": END_OF_WORD}, "content": " "},
        )  # fmt: skip
        super().__init__(made, {**names, **settings}, end_ids=end_ids, where=where)
        written = checked_vocabulary(target, where)
        self.written = {number: piece for piece, number in written.items() if piece not in names.values()}
        self.language = languages[1]
        self._detokenizer: Any = None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the target's `ids`. OptionError where sacremoses is not installed."""
        if self._detokenizer is None:
            try:
                from sacremoses import MosesDetokenizer
            except ImportError as error:
                raise OptionError(
                    "the words of this vocabulary are joined by sacremoses, which is not installed", where=self._where,
                    hint=HINT,
                ) from error  # fmt: skip
            self._detokenizer = MosesDetokenizer(lang=self.language)
        pieces = "".join(self.written.get(number, "") for number in ids)
        found: str = self._detokenizer.detokenize(pieces.replace(END_OF_WORD, " ").split())
        return found
