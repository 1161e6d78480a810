"""Tokenizers, sampling, and the generate loop.

Names are imported on first use: a tokenizer does not need the engine. The loop itself is
`pyapp.text.generate.generate`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "BatchEncoding": "encoding",
    "ChatTemplate": "chat_template",
    "Conversation": "chat",
    "DraftModel": "speculation",
    "Encoding": "encoding",
    "LanguageModel": "generate",
    "PromptLookup": "speculation",
    "Session": "generate",
    "Sampler": "sampling",
    "SamplingOptions": "options",
    "StopMatcher": "stream",
    "StreamDecoder": "stream",
    "ThinkingSplitter": "thinking",
    "Tokenizer": "tokenizer",
    "load_tokenizer": "tokenizer_files",
    "set_backend_factory": "tokenizer",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
