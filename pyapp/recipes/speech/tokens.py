"""The tokenizer of the embedded speech model: byte-level pieces as GPT-2's, then Whisper's special tokens.

The document is a Hugging Face tokenizer.json like that of openai/whisper-tiny.en, with fewer pieces, and with the
timestamps of the model's window. The `tokenizers` library splits texts into pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pyapp.errors import PyappError

TIME_STEP = 0.02  # seconds between two timestamps: one position of the encoder
SPECIALS = (
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|translate|>", "<|transcribe|>", "<|startoflm|>",
    "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>",
)  # fmt: skip


class SpeechTokens:
    """Token ids for training: text by `encode`, timestamps by `time`, special tokens by name.

    `document` is the tokenizer.json as text.
    """

    def __init__(self, document: str) -> None:
        from tokenizers import Tokenizer

        self.document = document
        self._native = Tokenizer.from_str(document)
        self.size: int = self._native.get_vocab_size()
        ids = [int(self._native.token_to_id(name) or 0) for name in SPECIALS]
        self.end, self.start, self.previous, self.no_speech, self.no_timestamps = ids[0], ids[1], *ids[6:]
        self.times = self.no_timestamps + 1

    def encode(self, text: str) -> list[int]:
        """The ids of a sentence. A space comes first, as in Whisper's texts."""
        return list(self._native.encode(f" {text}", add_special_tokens=False).ids)

    def time(self, seconds: float) -> int:
        """The id of the window's timestamp nearest to `seconds`."""
        return self.times + min(self.size - 1 - self.times, max(0, round(seconds / TIME_STEP)))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens and timestamps."""
        return str(self._native.decode([number for number in ids if number < self.end])).strip()


def timestamp_name(step: int) -> str:
    return f"<|{step * TIME_STEP:.2f}|>"


def train_tokens(texts: Iterable[str], pieces: int, timestamps: int) -> SpeechTokens:
    """Learns `pieces` byte-level pieces from `texts` and adds the special tokens and timestamps 0 to `timestamps`.

    Raises PyappError without the library `tokenizers`, and ValueError when the texts are too few for so many pieces.
    """
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    except ImportError as error:
        raise PyappError("the Python package `tokenizers` is missing", hint="pip install tokenizers") from error
    native = Tokenizer(models.BPE())
    native.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    native.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=pieces, initial_alphabet=sorted(alphabet), show_progress=False)
    native.train_from_iterator((f" {text}" for text in texts), trainer)
    document = json.loads(native.to_str())
    if len(document["model"]["vocab"]) != pieces:
        raise ValueError(f"cannot train {pieces} pieces: these texts give {len(document['model']['vocab'])}")
    names = [*SPECIALS, *map(timestamp_name, range(timestamps + 1))]
    document["added_tokens"] = [_added(pieces + number, name) for number, name in enumerate(names)]
    return SpeechTokens(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def _added(number: int, name: str) -> dict[str, Any]:
    """An entry of added_tokens. Timestamps are not special, as in Whisper's own files: decoding may show them."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": name, **flags, "special": name in SPECIALS}
