"""What the runners of language models know of a model: the longest prompts that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from pyapp.text.generation.generate import check_tokenizer
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import LanguageModel
from pyapp.text.tokenization.tokenizer import Tokenizer

from .problems import PromptTooLong


class Limits:
    """A model, its tokenizer, and `capacity`, the most tokens of prompt and text, which a subclass sets. ModelError
    where they do not belong together.
    """

    capacity: int

    def __init__(self, model: LanguageModel, tokenizer: Tokenizer) -> None:
        check_tokenizer(tokenizer, model.config)
        self.model, self.tokenizer = model, tokenizer
        self.vocab_size = model.config.vocab_size

    def check(self, ids: Sequence[int], options: SamplingOptions) -> None:
        """PromptTooLong for a prompt that is."""
        if len(ids) > self.capacity:
            raise self._too_long(f"{len(ids):,} tokens are")

    def check_text(self, text: str) -> None:
        """PromptTooLong for a text that is, however long its tokens are: it is not split into tokens, which would take
        minutes and gigabytes for the longest. Any thread may call it.
        """
        if len(text) > self.capacity and len(text) > self.capacity * self._longest_token:
            raise self._too_long(f"{len(text):,} characters are")

    @cached_property
    def _longest_token(self) -> int:
        """Bytes, at least as many as the characters that a token stands for."""
        return max(len(self.tokenizer.token_bytes(token)) for token in range(self.vocab_size)) + 1

    def _too_long(self, what: str) -> PromptTooLong:
        longest = self.model.config.max_seq_len
        return PromptTooLong(
            f"{what} too long: this model's maximum context length is {self.capacity:,} tokens", where="prompt",
            hint="Shorten it, or start the server with a larger --context" if self.capacity < longest else "Shorten it",
        )  # fmt: skip
