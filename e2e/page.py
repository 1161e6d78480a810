"""Actions of a visitor on the page, for the tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar, Self

from playwright.sync_api import ConsoleMessage, Download, Error, Locator, Page, expect

# The state of the engine once it is known, and the shown view is loaded.
STATE = """() => {
  const state = document.getElementById("engine-status")?.dataset.state;
  return globalThis.pyappPage?.views && !document.querySelector(".view[aria-busy]") && state !== "starting" && state;
}"""

# Asks the page every POLL milliseconds. To ask from here, or at each frame, takes a tenth of a core while a test waits.
POLL = 30
UNTIL = f"""async () => {{
  const [found, from] = [() => (%s), Date.now()];
  for (;;) {{
    const it = found();
    const value = await (typeof it === "function" ? it() : it);
    if (value || Date.now() - from > %d) return value;
    await new Promise((resolve) => setTimeout(resolve, {POLL}));
  }}
}}"""

# Makes a view as at the first visit: its name, what else it needs (of `app` and `view`), and where it shows errors.
RESET = """async () => {
  location.hash = "#%s";
  const { app, %s: view } = pyappPage;
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  await view.button.interrupt();
  %s;
  document.getElementById("%s").replaceChildren();
}"""


class ViewPage:
    """A view in one tab: the base of the pages of all views."""

    view: ClassVar[str]
    anew: ClassVar[str] = ""  # JavaScript of `reset`, of `app` and `view`
    parts: ClassVar[str] = ""  # the ids of the view begin so, where not as its name

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.expected_errors: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.slot = f"{self.parts or self.view}-error"
        self.error = page.locator(f"#{self.slot} [role=alert]")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def unexpected_errors(self) -> list[str]:
        return [error for error in self.errors if not any(part in error for part in self.expected_errors)]

    def open(self, url: str) -> Self:
        self.page.goto(f"{url}#{self.view}")
        self.wait_ready()
        self.page.evaluate(f"pyappPage.{self.view}.ready")
        return self

    def reset(self) -> None:
        """As at the first visit: no dialog, no error, the embedded model."""
        self.errors.clear()
        self.expected_errors.clear()
        self.page.evaluate(RESET % (self.view, self.view, self.anew, self.slot))

    def wait_ready(self, timeout: float = 60_000) -> Self:
        state = self.page.wait_for_function(STATE, timeout=timeout, polling=POLL).json_value()
        assert state == "ready", self.page.locator("#story-error").inner_text()
        return self

    def state(self, expression: str) -> Any:
        """Of the view."""
        return self.page.evaluate(f"pyappPage.{self.view}.{expression}")

    def engine(self, expression: str = "about") -> Any:
        return self.page.evaluate(f"pyappPage.app.engine.{expression}")

    def fill(self, prefix: str, values: dict[str, float]) -> None:
        """Sets numbers by the ends of their fields' ids."""
        for name, value in values.items():
            field = self.page.locator(f"#{prefix}{name}")
            field.fill(str(value))
            field.blur()

    def choose_folder(self, folder: Path) -> None:
        """Chooses a model that is a folder on this device."""
        card = self.page.locator(f"#{self.view}-model")
        card.get_by_role("button", name="Choose").click()
        self.models_opened()
        self.page.locator("#pick-folder").set_input_files(folder)
        expect(card.locator(".model-name")).to_have_text(folder.name)
        self.state("prepared")

    def download(self, selector: str) -> Download:
        """What a button saves."""
        with self.page.expect_download() as download:
            self.page.locator(selector).click()
        return download.value

    def open_models(self) -> Locator:
        self.page.get_by_role("button", name="Choose another model").click()
        return self.models_opened()

    def models_opened(self) -> Locator:
        """The list of models, once its module is loaded: before that its fields take no files."""
        dialog = self.page.locator("#model-dialog")
        expect(dialog).to_be_visible()
        return dialog

    def model_row(self, title: str) -> Locator:
        return self.page.locator(".model-row").filter(has=self.page.locator(".row-title", has_text=title))

    def close_dialog(self) -> None:
        self.page.keyboard.press("Escape")
        expect(self.page.locator("dialog[open]")).to_have_count(0)

    def set_hub(self, url: str) -> None:
        self.page.evaluate("(url) => { pyappPage.app.hub = url }", url)

    def submit(self, field: Locator, view: str) -> None:
        """Presses Control and Enter in a field of a view, and waits for the end of the run that this begins: a busy
        browser may take the key long after it was pressed.
        """
        self.page.evaluate(f"globalThis.overBefore = pyappPage.{view}.over")
        field.press("Control+Enter")
        self.until(f"pyappPage.{view}.over !== globalThis.overBefore && pyappPage.{view}.over.then(() => true)")

    def stop_once(self, expression: str, view: str) -> None:
        """Presses Escape in the page as soon as an expression is true, and waits for the end of the view's run. A key
        from here may come to a busy browser when all is done.
        """
        press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))"
        self.until(f"({expression}) && ({press}, true)")
        self.page.evaluate(f"pyappPage.{view}.over")

    def until(self, expression: str, timeout: float = 20.0) -> Any:
        """Waits in the page until an expression is true: unlike wait_for_function it may be a promise, or give one."""
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            try:
                if value := self.page.evaluate(UNTIL % (expression, left * 1000)):
                    return value
            except Error as error:
                if "context was destroyed" not in error.message:  # the page was loaded anew meanwhile
                    raise
        raise AssertionError(f"never true: {expression}")


class StoryPage(ViewPage):
    """The story view, or any page that opens without a view's name."""

    view = "story"
    anew = "app.choices.generate.chooseFirst()"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.generate_button = page.locator("#generate")

    def open(self, url: str) -> Self:
        self.page.goto(url)
        return self.wait_ready()

    def settings(self, **values: float) -> StoryPage:
        """Sets numbers by their names in SamplingOptions, and the seed; the others are as at the first visit."""
        self.page.evaluate("pyappPage.story.settings.reset()")
        self.page.evaluate("document.getElementById('settings').open = true")
        if values.keys() & {"top_k", "min_p", "repetition_penalty"}:
            self.page.evaluate("document.querySelector('.more').open = true")
        self.fill("", values)
        return self

    def start(self, prompt: str | None = None) -> StoryPage:
        if prompt is not None:
            self.page.locator("#prompt").fill(prompt)
        self.page.get_by_role("button", name="Generate").click()
        return self

    def wait_done(self, timeout: float = 60_000) -> StoryPage:
        self.page.wait_for_selector("#sheet[data-state=done]", timeout=timeout)
        return self

    def write(self, prompt: str | None = None) -> str:
        """Generates to the end, and returns the whole text."""
        self.start(prompt).wait_done()
        return self.text()

    def text(self) -> str:
        return str(self.page.evaluate("pyappPage.story.output.text"))

    def ids(self) -> list[int]:
        return list(self.page.evaluate("pyappPage.story.output.ids"))

    def metric(self, name: str) -> str:
        return self.page.locator(f"#metric-{name}").inner_text()

    def model_name(self) -> str:
        return self.page.locator("#model-name").inner_text()

    def pick(self, files: list[Path]) -> StoryPage:
        """Chooses files with the file field."""
        self.open_models()
        self.page.locator("#pick-files").set_input_files(files)
        return self
