"""A conversation as plain text with names before the turns: for models without a chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.errors import OptionError
from pyapp.text.tokenization.tokenizer import Tokenizer

NAMES = {"user": "User", "assistant": "Assistant"}
STOP = "\nUser:"  # where a model would go on with the user's next turn


class PlainChat:
    """Turns as lines `User: …` and `Assistant: …`; a system prompt stands alone above them. The methods are those of
    pyapp.text.chat.chat_template.ChatTemplate. OptionError for tools, and for a role without a name.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The text of a conversation, after the token that begins a text. It has no use for variables."""
        if tools is not None:
            raise OptionError("a model without a chat template knows no tools", where="tools")
        parts = []
        for index, message in enumerate(messages):
            role, content = message["role"], message["content"]
            if role not in NAMES and role != "system":
                raise OptionError(f"the role {role!r:.30} has no plain form", where=f"messages[{index}]")
            parts.append(content if role == "system" else f"{NAMES[role]}: {content}")
        if add_generation_prompt:
            parts.append(f"{NAMES['assistant']}:")
        return "\n".join(parts) + ("" if continue_final_message or add_generation_prompt else "\n")

    def render_guarded(self, messages: Sequence[Mapping[str, Any]], tools: Any = None, **options: Any) -> str:
        """As `render`; names of special tokens in the messages are marked as text."""
        guard = self.tokenizer.guard
        return self.render(
            [{**message, "content": guard(message["content"])} for message in messages], tools, **options
        )

    def encode_guarded(self, text: str) -> list[int]:
        """The token ids of a text of `render_guarded`, after the token that begins a text, if there is one."""
        begin = [] if self.tokenizer.bos_id is None else [self.tokenizer.bos_id]
        return [*begin, *self.tokenizer.encode_guarded(text)]

    def placed(self, ids: Sequence[int]) -> list[int]:
        """The ids: there are no pictures."""
        return list(ids)

    def stop_ids(self) -> frozenset[int]:
        """The ids that end a text."""
        return self.tokenizer.stop_ids
