"""Actions of a visitor in the transcribe view, for the tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from e2e.page import StoryPage

SHEET = "pyappPage.transcribe.sheet"


class TranscribePage(StoryPage):
    """The transcribe view in one tab."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.error = page.locator("#transcribe-error [role=alert]")
        self.button = page.locator("#transcribe")
        self.notes = page.locator("#recording-notes")
        self.ending = page.locator("#transcript-ending")
        self.words = page.locator("#transcript .word")

    def open(self, url: str) -> TranscribePage:
        super().open(f"{url}#transcribe")
        return self

    def reset(self) -> None:
        """As at the first visit: no dialog, no error, the embedded model, the usual settings."""
        self.errors.clear()
        self.page.evaluate(
            "async () => { location.hash = '#transcribe'; const { app, transcribe } = pyappPage;"
            " document.querySelectorAll('dialog[open]').forEach((dialog) => dialog.close());"
            " await transcribe.button.interrupt(); app.choices.transcribe.chooseFirst();"
            " document.getElementById('transcribe-error').replaceChildren() }"
        )
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
        with self.page.expect_download() as saved:
            self.page.locator(f"#downloads [data-format={format}]").click()
        assert saved.value.suggested_filename.endswith(f".{format}")
        return Path(saved.value.path()).read_text(encoding="utf-8")

    def settings(self, **values: Any) -> TranscribePage:
        """Sets `times` (segments, words), `silence` and others by their names."""
        self.page.evaluate(
            "(values) => { const { settings } = pyappPage.transcribe; Object.assign(settings.values, values) }", values
        )
        return self
