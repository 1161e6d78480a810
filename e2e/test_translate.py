"""Translate: what a model writes for the parts of a text, as natively; stopped, kept, saved; languages; refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import shared
from e2e.fake_hub import FakeHub
from e2e.page import ViewPage
from pyapp.events import Item
from pyapp.models.loading.by_task import load_task_model
from pyapp.tasks.texts import translate_texts
from scripts.serve import SiteServer
from tests.formats.gguf_parts import in_parts
from tests.models.test_gguf_encoders import converted, folder_of
from tests.text.writer import write_writer

SOURCE = "The cat sat. A dog!\n\nthe mat is blue\n"
PARTS = ["The cat sat.", "A dog!", "the mat is blue"]


class TranslatePage(ViewPage):
    """The translate view in one tab."""

    view = "translate"

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self.model = page.locator("#translate-model .model-name")
        self.field = page.locator("#translate-text")
        self.output = page.locator("#translate-output")

    def translate(self, text: str) -> str:
        self.field.fill(text)
        self.submit(self.field, "translate")
        return self.output.inner_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_writer(tmp_path_factory.mktemp("models") / "writer")


@pytest.fixture(scope="module")
def translate_tab(browser: BrowserContext, site: SiteServer) -> Iterator[TranslatePage]:
    yield (page := TranslatePage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def translate(
    translate_tab: TranslatePage, site: SiteServer, request: pytest.FixtureRequest
) -> Iterator[TranslatePage]:
    """The view in the tab of the module; each test chooses its model."""
    translate_tab.errors.clear()
    with shared(translate_tab, site.url, request, reset=False):
        yield translate_tab


def native(folder: Path, texts: list[str], **options: Any) -> list[str]:
    events = list(translate_texts(load_task_model(folder, "seq2seq-lm"), texts, **options))
    items = {event.index: event.values["text"] for event in events if isinstance(event, Item)}
    return [items[index] for index in range(len(texts))]


def test_a_text_is_translated_in_parts_kept_and_saved(translate: TranslatePage, folder: Path, tmp_path: Path) -> None:
    page = translate.page
    expect(translate.model).to_have_text("No model yet")
    expect(page.locator("#translate-offer")).to_contain_text("opus-mt-en-de")
    translate.field.fill("before a reload")
    translate.field.press("Control+Enter")
    expect(translate.error).to_contain_text("no model")
    page.reload()
    translate.wait_ready()
    expect(translate.field).to_have_value("before a reload")
    translate.choose_folder(folder)
    expect(page.locator("#translate-languages")).to_be_hidden()

    first, second, third = native(folder, PARTS)
    wanted = f"{first} {second}\n\n{third}"
    assert translate.translate(SOURCE) == wanted != ""
    with page.expect_download() as download:
        page.locator("#translate-save").click()
    assert download.value.path().read_text("utf-8") == wanted + "\n"
    page.locator("#history-translation summary").click()
    expect(page.locator("#history-translation .history-row")).to_have_count(1)
    # The whole text at once, with words before it; a text that is too long is said to be cut.
    page.locator("#translate-prefix").fill("the dog ")
    page.locator("#translate-prefix").blur()
    page.locator("#translate-division").select_option("whole")
    assert translate.translate("a cat") == native(folder, ["the dog a cat"])[0]
    translate.translate("the cat sat on the mat " * 10)
    expect(page.locator("#translate-note")).to_contain_text("The text is longer than the 40 tokens")
    page.locator("#translate-prefix").fill("")
    page.locator("#translate-prefix").blur()
    page.locator("#translate-division").select_option("sentences")
    # A text file takes the place of what is in the field, which can undo it, however many lines it has.
    page.evaluate("pyappPage.translate.drop([new File(['the green house.\\n'.repeat(3000)], 'a.txt')])")
    expect(translate.field).to_have_value("the green house.\n" * 2999 + "the green house.")
    page.keyboard.press("Control+z")
    expect(translate.field).to_have_value("the cat sat on the mat " * 10)
    # Stopped, what was written is kept; a reload shows it again.
    translate.field.fill("the cat sat. " * 2 + "A dog ran. " * 400)
    translate.field.press("Control+Enter")
    translate.stop_once(
        "pyappPage.translate.result?.source.endsWith('ran. ') && pyappPage.translate.result.parts.length > 2",
        "translate",
    )
    expect(page.locator("#translate-ending")).to_have_text("You stopped it here.")
    text = translate.output.inner_text()
    assert 2 < page.evaluate("pyappPage.translate.result.parts.length") < 401
    page.reload()
    translate.wait_ready()
    page.evaluate("pyappPage.translate.ready")
    assert translate.output.inner_text() == text != ""
    rows = page.locator("#history-translation")
    rows.locator("summary").click()
    rows.locator(".history-row").nth(3).get_by_role("button").first.click()
    expect(translate.output).to_have_text(wanted, use_inner_text=True)
    expect(translate.field).to_have_value(SOURCE)


def test_languages_and_what_is_refused(translate: TranslatePage, tmp_path: Path) -> None:
    page = translate.page
    many = write_writer(tmp_path / "many", languages=True)
    config = json.loads((many / "config.json").read_text())
    tasks = {"summarization": {"prefix": "sum: "}, "translation": {"prefix": "the dog "}, "other": {"num_beams": 2}}
    (many / "config.json").write_text(json.dumps(config | {"task_specific_params": tasks}))
    translate.choose_folder(many)
    expect(page.locator("#translate-languages")).to_be_visible()
    expect(page.locator("#translate-note")).to_contain_text("“Before each part”, such as “the dog ”")
    page.locator("#translate-from").select_option("fra_Latn")
    page.locator("#translate-to").select_option("deu_Latn")
    [wanted] = native(many, ["the cat sat."], source="fra_Latn", target="deu_Latn")
    assert translate.translate("the cat sat.") == wanted
    assert page.locator("#translate-output").get_attribute("lang") == "deu-Latn"
    # Another model does not replace it before it is loaded: this one is for another view.
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    page.locator("#translate-model").get_by_role("button", name="Choose").click()
    translate.models_opened()
    page.locator("#pick-files").set_input_files([tmp_path / "config.json", many / "model.safetensors"])
    expect(page.locator("#model-error")).to_contain_text("Search")
    page.keyboard.press("Escape")
    assert translate.translate("the cat sat.") == wanted


def test_a_file_in_parts_of_the_hub(translate: TranslatePage, hub: FakeHub, tmp_path: Path) -> None:
    page = translate.page
    _, source = folder_of("t5", tmp_path / "t5", "seq2seq-lm")
    parts = in_parts(converted(source, tmp_path / "small.gguf", "f32"))
    for part in parts:
        hub.add("tests/t5-GGUF", part.name, part.read_bytes())
    translate.set_hub(hub.url)
    page.locator("#translate-model").get_by_role("button", name="Choose").click()
    translate.models_opened()
    page.locator("#hub-name").fill("tests/t5-GGUF")
    page.locator("#hub-find").click()
    page.locator("#hub-found .model-row").get_by_role("button", name="Download").click()
    expect(translate.model).to_have_text("small.gguf")
    translate.until("pyappPage.translate.loaded !== null")
    assert translate.translate("the cats sat") == native(parts[0], ["the cats sat"])[0] != ""
