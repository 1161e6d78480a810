"""What a visitor does in the chat view, in the words of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from e2e.page import StoryPage


class ChatPage(StoryPage):
    """The chat view in one tab."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.error = page.locator("#chat-error [role=alert]")
        self.field = page.locator("#chat-field")
        self.turns = page.locator("#chat-turns > li")
        self.template = page.locator("#chat-template")

    def open(self, url: str) -> ChatPage:
        super().open(f"{url}#chat")
        self.field.wait_for()
        self.page.evaluate("pyappPage.chat.ready")
        return self

    def reset(self) -> None:
        """As at the first visit: a new conversation, the embedded model, the usual settings, no error."""
        self.errors.clear()
        self.expected_errors.clear()
        self.page.evaluate(
            "async () => { location.hash = '#chat'; const { app, chat } = pyappPage;"
            " document.querySelectorAll('dialog[open]').forEach((dialog) => dialog.close());"
            " await chat.button.interrupt(); app.choices.chat.chooseFirst(); await chat.prepared;"
            " chat.settings.reset(); chat.conversation.system = ''; await chat.begin(); chat.field.value = '';"
            " await chat.attachments.settled; chat.attachments.take(); await chat.keepPictures();"
            " document.getElementById('chat-error').replaceChildren() }"
        )

    def pick_model(self, files: list[Path]) -> ChatPage:
        """Chooses files in the dialog."""
        self.page.locator("#chat-model").get_by_role("button", name="another model").click()
        self.models_opened()
        self.page.locator("#pick-files").set_input_files(files)
        return self

    def use(self, files: list[Path], title: str = "model.safetensors") -> ChatPage:
        """Chooses the files of a model, which is loaded."""
        self.pick_model(files)
        expect(self.page.locator("#chat-model .model-name")).to_have_text(title)
        expect(self.page.locator("dialog[open]")).to_have_count(0)
        return self

    def settings(self, **values: float) -> ChatPage:
        self.page.evaluate("document.getElementById('chat-settings').open = true")
        for name, value in values.items():
            field = self.page.locator(f"#chat-{name}")
            field.fill(str(value))
            field.blur()
        return self

    def say(self, text: str) -> str:
        """Sends a message; the whole answer."""
        self.field.fill(text)
        self.field.press("Enter")
        self.until(f"pyappPage.chat.conversation.path.some(({{ text }}) => text === {json.dumps(text)})")
        return self.answered()

    def answered(self) -> str:
        """Waits until the answer is written and stored; the last turn's text."""
        self.page.evaluate("pyappPage.chat.over")
        return self.texts()[-1]

    def texts(self) -> list[str]:
        return list(self.page.evaluate("pyappPage.chat.conversation.path.map(({ text }) => text)"))

    def last(self) -> dict[str, Any]:
        """The event that ended the last answer."""
        return dict(self.page.evaluate("pyappPage.chat.last"))

    def turn(self, index: int) -> Locator:
        return self.turns.nth(index)
