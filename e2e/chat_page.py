"""What a visitor does in the chat view, in the words of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from e2e.page import ViewPage


class ChatPage(ViewPage):
    """The chat view in one tab."""

    view = "chat"
    anew = """app.choices.chat.chooseFirst();
  await view.prepared;
  view.settings.reset();
  view.conversation.system = "";
  await view.begin();
  view.field.value = "";
  await view.attachments.settled;
  view.attachments.take();
  await view.keepPictures()"""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.field = page.locator("#chat-field")
        self.turns = page.locator("#chat-turns > li")
        self.template = page.locator("#chat-template")

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
        self.fill("chat-", values)
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
