"""Tokenizers, sampling, and the generate loop.

Names are imported on first use: a tokenizer does not need the engine. The loop itself is
`pyapp.text.generate.generate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.engine.lazy import late_names

if TYPE_CHECKING:
    from pyapp.text.chat import Conversation
    from pyapp.text.chat_template import ChatTemplate
    from pyapp.text.encoding import BatchEncoding, Encoding
    from pyapp.text.generate import LanguageModel, Session
    from pyapp.text.options import SamplingOptions
    from pyapp.text.sampling import Sampler
    from pyapp.text.speculation import DraftModel, PromptLookup
    from pyapp.text.stream import StopMatcher, StreamDecoder
    from pyapp.text.thinking import ThinkingSplitter
    from pyapp.text.tokenizer import Tokenizer, set_backend_factory
    from pyapp.text.tokenizer_files import load_tokenizer

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
        "chat": "Conversation",
        "chat_template": "ChatTemplate",
        "encoding": "BatchEncoding Encoding",
        "generate": "LanguageModel Session",
        "options": "SamplingOptions",
        "sampling": "Sampler",
        "speculation": "DraftModel PromptLookup",
        "stream": "StopMatcher StreamDecoder",
        "thinking": "ThinkingSplitter",
        "tokenizer": "Tokenizer set_backend_factory",
        "tokenizer_files": "load_tokenizer",
    },
)
