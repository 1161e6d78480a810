"""Trains a byte-pair tokenizer that llama2.c's tokenizer.bin stores without loss.

The pieces are numbered as in llama2.c: <unk>, <s>, </s>, 256 bytes, characters, then one piece per merge. A piece's
score is minus the number of its merge: "the best score first" and "the earliest merge first" are then one rule. A space
is ▁ in tokenizer.json, as in SentencePiece, and a space in tokenizer.bin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.errors import PyappError
from pyapp.text.documents import SPACE, added_token, bpe_model, document, sequence, template

CONTROL = ("<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
# The same in llama2.c's files.
CONTROL_IN_FILE = ("<unk>", "\n<s>\n", "\n</s>\n")
# A piece is letters or marks, never both, with or without the space before them; a line break is a byte.
WORDS = rf"{SPACE}?[A-Za-z']+|{SPACE}?[^A-Za-z'{SPACE}\n]+|{SPACE}"


@dataclass(frozen=True)
class Vocabulary:
    """A trained vocabulary: pieces (with ▁ for spaces) by id, and the merges in order."""

    pieces: tuple[str, ...]
    merges: tuple[tuple[str, str], ...]

    def scores(self) -> list[float]:
        """Scores for tokenizer.bin. Control pieces, bytes and characters score below all merges."""
        rank: dict[str, int] = {}
        for number, (left, right) in enumerate(self.merges):
            rank.setdefault(left + right, number)
        return [float(-rank.get(piece, len(self.merges))) for piece in self.pieces]

    def pieces_in_file(self) -> list[str]:
        """The pieces as in tokenizer.bin."""
        plain = [piece.replace(SPACE, " ") for piece in self.pieces[len(CONTROL) :]]
        return [*CONTROL_IN_FILE, *plain]

    def to_json(self) -> str:
        """tokenizer.json for Hugging Face's tokenizers, which adds <s> before a text."""
        return json.dumps(self._document(), ensure_ascii=False, indent=1)

    def _document(self) -> dict[str, Any]:
        decode_steps = [
            _replacing(SPACE, " "),
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]
        return document(
            bpe_model(
                {piece: number for number, piece in enumerate(self.pieces)},
                [list(pair) for pair in self.merges],
                unk_token="<unk>", fuse_unk=True, byte_fallback=True,
            ),
            added_tokens=[added_token(number, piece) for number, piece in enumerate(CONTROL)],
            normalizer=sequence("normalizers", [{"type": "Prepend", "prepend": SPACE}, _replacing(" ", SPACE)]),
            post_processor=template([("<s>", 1)], [], second_type=0),
            decoder=sequence("decoders", decode_steps),
        )  # fmt: skip


def _replacing(old: str, new: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


def train_vocabulary(texts: Iterable[str], size: int) -> Vocabulary:
    """Learns a vocabulary of `size` pieces from `texts`. Raises PyappError without the library `tokenizers`, and
    ValueError when `size` is too small for the characters or the texts are too few for it.
    """
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    except ImportError as error:
        raise PyappError("the Python package `tokenizers` is missing", hint="pip install tokenizers") from error
    native = Tokenizer(models.BPE())
    # Training is given words, so that no piece crosses a space. The trained tokenizer needs no splitting.
    native.pre_tokenizer = pre_tokenizers.Split(Regex(WORDS), "isolated")
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=[*CONTROL, *BYTES], show_progress=False)
    native.train_from_iterator(_lines(texts), trainer)
    model = json.loads(native.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if len(pieces) != size:
        raise ValueError(f"cannot train a vocabulary of {size} pieces: these texts give {len(pieces)}")
    merges = (pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"])
    return Vocabulary(tuple(pieces), _with_all_cuts(pieces, [(left, right) for left, right in merges]))


def _lines(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        spaced = SPACE + text.replace(" ", SPACE)
        yield from spaced.split("\n")


def _with_all_cuts(pieces: list[str], trained: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The trained merges, each followed by the other ways to cut its piece.

    llama2.c joins any two neighbours whose union is a piece, not only the two that training joined.
    """
    known = set(pieces[len(CONTROL) + len(BYTES) :])
    merges: dict[tuple[str, str], None] = {}
    for left, right in trained:
        union = left + right
        cuts = ((union[:at], union[at:]) for at in range(len(union) - 1, 0, -1))
        merges.update(dict.fromkeys(cut for cut in cuts if cut[0] in known and cut[1] in known))
    return tuple(merges)
