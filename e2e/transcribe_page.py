"""Actions of a visitor in the transcribe view, for the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from e2e.page import ViewPage

SHEET = "pyappPage.transcribe.sheet"


class TranscribePage(ViewPage):
    """The transcribe view in one tab."""

    view = "transcribe"
    anew = "app.choices.transcribe.chooseFirst()"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.button = page.locator("#transcribe")
        self.notes = page.locator("#recording-notes")
        self.ending = page.locator("#transcript-ending")
        self.words = page.locator("#transcript .word")

    def reset(self) -> None:
        super().reset()
        self.settings(times="words", silence=True)

    def use(self, files: list[Path] | Path) -> TranscribePage:
        """Chooses the files, or the folder, of a speech model."""
        self.open_models()
        field = "#pick-folder" if isinstance(files, Path) else "#pick-files"
        self.page.locator(field).set_input_files(files)
        return self

    def choose(self, folder: Path) -> TranscribePage:
        """Chooses the folder of a speech model, and waits until it is accepted."""
        self.use(folder)
        expect(self.page.locator("#speech-model .model-name")).to_have_text(folder.name)
        return self

    def take(self, recording: Path | dict[str, Any]) -> TranscribePage:
        """Chooses a recording: it is transcribed at once."""
        self.page.locator("#pick-audio").set_input_files(recording)  # type: ignore[arg-type]
        return self

    def wait_done(self, timeout: float = 60_000) -> TranscribePage:
        self.page.wait_for_selector("#transcript-sheet[data-state=done]", timeout=timeout)
        expect(self.button).to_have_text(re.compile("Transcribe"))
        return self

    def wait_refused(self, says: str) -> str:
        """Waits for an error with this text, and returns it."""
        expect(self.error).to_contain_text(says)
        return self.error.inner_text()

    def text(self) -> str:
        return str(self.page.evaluate(f"{SHEET}.transcript.text"))

    def segments(self) -> list[dict[str, Any]]:
        return list(self.page.evaluate(f"{SHEET}.transcript.segments"))

    def player(self, expression: str) -> Any:
        return self.page.evaluate(f"{SHEET}.player.{expression}")

    def save(self, format: str) -> str:
        """The content of the saved file."""
        saved = self.download(f"#downloads [data-format={format}]")
        assert saved.suggested_filename.endswith(f".{format}")
        return Path(saved.path()).read_text(encoding="utf-8")

    def settings(self, **values: Any) -> TranscribePage:
        """Sets `times` (segments, words), `silence` and others by their names."""
        self.page.evaluate(
            "(values) => { const { settings } = pyappPage.transcribe; Object.assign(settings.values, values) }", values
        )
        return self
