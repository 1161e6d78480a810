"""Tokenizers, sampling, and the generate loop.

Names are imported on first use: a tokenizer does not need the engine. The loop itself is
`pyapp.text.generation.generate.generate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from pyapp.text.chat.chat import Conversation
    from pyapp.text.chat.chat_template import ChatTemplate
    from pyapp.text.chat.thinking import ThinkingSplitter
    from pyapp.text.generation.generate import LanguageModel, Session
    from pyapp.text.generation.options import SamplingOptions
    from pyapp.text.generation.sampling import Sampler
    from pyapp.text.generation.speculation import DraftModel, PromptLookup
    from pyapp.text.generation.stream import StopMatcher, StreamDecoder
    from pyapp.text.tokenization.encoding import BatchEncoding, Encoding
    from pyapp.text.tokenization.tokenizer import Tokenizer, set_backend_factory
    from pyapp.text.tokenization.tokenizer_files import load_tokenizer

__all__ = [
    "BatchEncoding",
    "ChatTemplate",
    "Conversation",
    "DraftModel",
    "Encoding",
    "LanguageModel",
    "PromptLookup",
    "Sampler",
    "SamplingOptions",
    "Session",
    "StopMatcher",
    "StreamDecoder",
    "ThinkingSplitter",
    "Tokenizer",
    "load_tokenizer",
    "set_backend_factory",
]

__getattr__ = late_names(
    __name__,
    {
        "chat.chat": "Conversation",
        "chat.chat_template": "ChatTemplate",
        "tokenization.encoding": "BatchEncoding Encoding",
        "generation.generate": "LanguageModel Session",
        "generation.options": "SamplingOptions",
        "generation.sampling": "Sampler",
        "generation.speculation": "DraftModel PromptLookup",
        "generation.stream": "StopMatcher StreamDecoder",
        "chat.thinking": "ThinkingSplitter",
        "tokenization.tokenizer": "Tokenizer set_backend_factory",
        "tokenization.tokenizer_files": "load_tokenizer",
    },
)
