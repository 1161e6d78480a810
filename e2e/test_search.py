"""Search: texts are split and embedded as natively, found by meaning, kept, exported; models of hub and folder."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from e2e.conftest import shared, watched
from e2e.fake_hub import FakeHub
from e2e.page import StoryPage, ViewPage
from pyapp.events import Item
from pyapp.models.loading.by_task import load_task_model
from pyapp.tasks.search import best_sentences, index_texts, unit_vectors
from scripts.serve import SiteServer
from tests.text.embedder import TEXTS, WORDS, write_embedder

SIZE = 16
REPO = "tests/encoder"


class SearchPage(ViewPage):
    """The search view in one tab."""

    view = "search"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.note = page.locator("#search-note")
        self.results = page.locator("#search-list .result")
        self.model = page.locator("#search-model .model-name")

    def over(self) -> None:
        """Waits for what runs."""
        self.page.evaluate("pyappPage.search.over")
        self.page.evaluate("pyappPage.search.over")

    def split(self) -> None:
        """Sets the sizes of the passages."""
        self.page.locator("#search-size").fill(str(SIZE))
        self.page.locator("#search-overlap").fill("4")
        self.page.locator("#search-overlap").blur()

    def ask(self, question: str) -> None:
        self.page.locator("#search-question").fill(question)
        self.page.locator("#search-question").press("Enter")
        self.over()

    def marked(self) -> list[str]:
        return self.results.locator("mark").all_inner_texts()


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    write_embedder(folder)
    return folder


@pytest.fixture(scope="module")
def search_tab(browser: BrowserContext, site: SiteServer) -> Iterator[SearchPage]:
    yield (page := SearchPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def search(search_tab: SearchPage, site: SiteServer, request: pytest.FixtureRequest) -> Iterator[SearchPage]:
    """The view in the tab of the module; each test chooses its model, and begins a collection."""
    search_tab.errors.clear()
    with shared(search_tab, site.url, request, reset=False):
        yield search_tab


@pytest.fixture
def first_search(browser: BrowserContext, site: SiteServer, hub: FakeHub, encoder: Path) -> Iterator[SearchPage]:
    """The view in a new tab, which has no model, with one on the hub."""
    for path in encoder.rglob("*"):
        if path.is_file():
            hub.add(REPO, path.relative_to(encoder).as_posix(), path.read_bytes())
    with watched(browser.new_page(), SearchPage) as page:
        page.open(site.url)
        page.set_hub(hub.url)
        yield page


def native(encoder: Path, question: str) -> tuple[list[dict[str, Any]], np.ndarray, list[str]]:
    """The passages, their cosines to the question, and the best sentences of the three best, computed here."""
    loaded = load_task_model(encoder, "features")
    texts = list(TEXTS.values())
    found = [event.values for event in index_texts(loaded, texts, size=SIZE, overlap=4, prompt="passage : ")
             if isinstance(event, Item)]  # fmt: skip
    [asked] = [event.values["embedding"] for event in unit_vectors(loaded, [question], prompt="query : ")
               if isinstance(event, Item)]  # fmt: skip
    scores = np.array([one["embedding"] for one in found]) @ np.array(asked)
    best = [texts[found[i]["text"]][found[i]["start"] : found[i]["end"]] for i in np.argsort(-scores)[:3]]
    events = best_sentences(loaded, question, best, query_prompt="query : ", prompt="passage : ")
    spans = [event.values for event in events if isinstance(event, Item)]
    marked = [text[span["start"] : span["end"]] for text, span in zip(best, spans, strict=True)]
    return [dict(one) for one in found], scores, marked


def test_texts_are_found_kept_and_exported(
    first_search: SearchPage, hub: FakeHub, encoder: Path, tmp_path: Path
) -> None:
    search, page = first_search, first_search.page
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    # Without a model the texts wait for one; models of the hub are offered.
    expect(search.model).to_have_text("No model yet")
    expect(page.locator("#search-offer")).to_contain_text("all-MiniLM-L6-v2")
    search.split()
    page.locator("#search-files").set_input_files(tmp_path / "picture.png")
    expect(search.error).to_contain_text("Read takes the text out of pictures and PDFs")
    page.locator("#search-files").set_input_files([tmp_path / name for name in (*TEXTS, "picture.png")])
    expect(search.error).to_contain_text("no model")
    # They wait over a reload, too, as what is typed does.
    page.locator("#search-question").fill("a question")
    page.reload()
    search.wait_ready()
    page.locator("#search-question").wait_for()
    search.state("ready")
    search.set_hub(hub.url)
    expect(page.locator("#search-empty")).to_contain_text(
        f"{len(TEXTS)} texts can be searched as soon as there is a model"
    )
    expect(page.locator("#search-question")).to_have_value("a question")
    page.locator("#search-question").press("Enter")
    expect(search.error).to_contain_text("no model")
    search.error.get_by_role("button", name="Open models").click()  # those of this view, not those that were shown last
    expect(page.locator("#model-list")).to_contain_text("all-MiniLM-L6-v2")
    page.locator("#hub-name").fill(REPO)
    page.locator("#hub-find").click()
    page.locator("#hub-found").get_by_role("button", name="Download").click()
    expect(search.model).to_have_text("encoder")
    search.until("pyappPage.search.collection.passages.length > 0")
    search.over()
    expect(page.locator("#search-query-prompt")).to_have_value("query : ")

    question = "the fox in the snow"
    found, scores, marked = native(encoder, question)
    assert [{key: one[key] for key in ("text", "start", "end")} for one in found] == search.state("collection.passages")
    vectors = np.array(search.state("collection.vectors && [...pyappPage.search.collection.vectors]"))
    np.testing.assert_allclose(vectors, np.ravel([one["embedding"] for one in found]), atol=2e-4)
    search.ask(question)
    shown = [result["score"] for result in search.state("found")]
    np.testing.assert_allclose(shown, np.sort(scores)[::-1], atol=2e-4)
    assert search.marked()[:3] == marked
    expect(search.results.first).to_contain_text("animals.txt")
    page.locator("#search-question").press("ArrowDown")
    page.keyboard.press("Enter")
    expect(search.results.first.get_by_role("button")).to_have_text("Less of the text")
    expect(search.results.first).to_contain_text("The cat slept on the mat.")

    page.locator(".search-compare summary").click()
    page.locator("#compare-one").fill("We baked bread.")
    page.locator("#compare-two").fill("we baked bread.")
    page.locator("#compare").click()
    expect(page.locator("#compare-result")).to_contain_text("100 % alike")
    page.locator("#compare").dblclick()  # the second half waits for the first
    expect(page.locator("#compare-result")).to_contain_text("100 % alike")

    # What is removed comes back, with its vectors.
    names = search.state("collection.texts.map(({ name }) => name)")
    page.get_by_role("button", name=f"Remove {names[0]}").dblclick()  # removes one
    expect(search.note).to_contain_text(f"“{names[0]}” is removed.")
    assert search.state("collection.texts.map(({ name }) => name)") == names[1:]
    page.get_by_role("button", name=f"Remove {names[1]}").click()
    for name in (names[1], names[0]):
        expect(search.note).to_contain_text(f"“{name}” is removed.")
        search.note.get_by_role("button", name="Undo").click()
        expect(page.get_by_role("button", name=f"Remove {name}")).to_be_focused()
    assert search.state("collection.texts.map(({ name }) => name)") == names
    search.ask(question)
    np.testing.assert_allclose([result["score"] for result in search.state("found")], np.sort(scores)[::-1], atol=2e-4)
    assert search.marked()[:3] == marked
    vectors = np.array(search.state("collection.vectors && [...pyappPage.search.collection.vectors]"))
    page.locator("#search-paste").fill("I was about to add this.")

    # It is there after a reload, with the model, and nothing is downloaded or embedded again.
    page.get_by_role("button", name="Rename animals.txt").click()
    page.get_by_label("New name").fill("Notes")
    page.keyboard.press("Enter")
    expect(page.locator("#history-collection .history-open")).to_contain_text("Notes")
    asked = len(hub.requests)
    page.reload()
    search.wait_ready()
    page.locator("#search-question").wait_for()
    search.state("ready")
    expect(page.locator("#history-collection .history-open")).to_contain_text("Notes")
    expect(page.locator("#search-paste")).to_have_value("I was about to add this.")
    search.ask(question)
    assert search.marked()[:3] == marked and len(hub.requests) == asked

    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    saved = tmp_path / "saved.json"
    download.value.save_as(saved)
    [kept] = json.loads(saved.read_text())["collections"]
    assert np.frombuffer(base64.b64decode(kept["vectors"]), "f4").tolist() == pytest.approx(vectors.tolist())
    page.get_by_role("button", name="Delete Notes").click()
    expect(page.locator("#history-collection .history-row")).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#history-collection .history-row")).to_have_count(1)
    page.get_by_role("button", name="Delete Notes").click()
    expect(page.locator("#history-collection .history-row")).to_have_count(0)  # the row to open is the imported one
    page.locator("#history-collection .history-import").set_input_files(saved)
    page.locator("#history-collection .history-open").click()
    search.until("pyappPage.search.collection.passages.length > 0")
    search.ask(question)
    assert search.marked()[:3] == marked
    for change, says in (
        ({"passages": [{"text": 9, "start": 0, "end": 1}]}, "a passage"),
        ({"vectors": "AAAA"}, "vectors"),
    ):
        saved.write_text(json.dumps({"format": "pyapp.search", "version": 1, "collections": [kept | change]}))
        page.locator("#history-collection .history-import").set_input_files(saved)
        expect(page.locator("#history-collection [role=alert]")).to_contain_text(says)

    # Another model: its vectors cannot be compared with those of the first.
    for path in write_embedder(tmp_path / "other", seed=8):
        hub.add("tests/other", path.relative_to(tmp_path / "other").as_posix(), path.read_bytes())
    page.locator("#search-model").get_by_role("button", name="another model").click()
    search.models_opened()
    page.locator("#pick-folder").set_input_files(tmp_path / "other")
    expect(search.model).to_have_text("other")
    expect(search.note).to_contain_text("made with encoder")
    search.ask(question)
    expect(search.error).to_contain_text("made with encoder")
    search.note.get_by_role("button", name="Embed again").click()
    search.over()
    search.ask(question)
    expect(search.error).to_have_count(0)
    expect(search.results.first).to_contain_text("fox")
    page.evaluate("location.hash = '#story'")
    page.locator("#view-story").wait_for()
    page.evaluate("pyappPage.app.actions.models()")
    expect(page.locator("#model-list")).to_contain_text("Little stories")


def test_pages_and_tables_become_paragraphs_and_a_new_engine_gets_the_model_again(
    search: SearchPage, encoder: Path, tmp_path: Path
) -> None:
    texts = {
        "a.csv": ("name;city\nAnn;Rome\n", "name: Ann\ncity: Rome"),
        "b.csv": ('name,city\n"Lee, Bo",Paris\n', "name: Lee, Bo\ncity: Paris"),
        "c.tsv": ("name\tcity\nEve\tOslo\n", "name: Eve\ncity: Oslo"),
        "d.html": (
            # It is parsed in pieces of about 32,768 characters.
            "<head><title>Gone</title><body><h1 title='a > b'>Cake</h1>"
            f"<p it's>Ba{'<i></i>' * 10_000}ke<br>it &lt; &amp;.</p>"
            "<script>alert('<p>')</script><!-- <p>gone --><table><tr><td>2<td>eggs</table><style>p",
            "Cake\n\nBake it < &.\n\n2 eggs",
        ),
    }
    for name, (text, _) in texts.items():
        (tmp_path / name).write_text(text)
    mine = Path(shutil.copytree(encoder, tmp_path / "mine"))
    search.choose_folder(mine)
    search.page.evaluate("pyappPage.search.begin()")
    search.page.locator("#search-files").set_input_files([tmp_path / name for name in texts])
    search.until("pyappPage.search.collection.texts.length === 4")
    assert search.state("collection.texts.map(({ text }) => text)") == [expected for _, expected in texts.values()]
    search.over()

    search.page.evaluate("pyappPage.app.restart()")  # the page has the model's files, and gives them again
    expect(search.model).to_have_text("mine")
    (tmp_path / "other.txt").write_text("Bread is baked.")
    (tmp_path / "more.txt").write_bytes("The f\u0436x ran.".encode("koi8-u"))
    for name in ("other.txt", "more.txt"):  # the second while the first waits for the model
        search.page.locator("#search-files").set_input_files(tmp_path / name)
    search.until("pyappPage.search.collection.texts.length === 6 && !pyappPage.search.collection.unfinished.length")
    search.over()
    expect(search.note).to_contain_text("more.txt is not in UTF-8.")
    assert search.state("collection.texts.at(-1).text") == "The f\u00d6x ran."
    search.note.locator("select").select_option("koi8-u")
    search.until("pyappPage.search.collection.texts.at(-1).text === 'The f\u0436x ran.'")
    search.until("pyappPage.search.collection.texts.length === 6 && !pyappPage.search.collection.unfinished.length")
    search.over()
    expect(search.note.locator("select")).to_have_value("koi8-u")
    search.page.evaluate("localStorage.removeItem('pyapp.encoding')")

    # The page answers while it reads a long table, which Escape stops.
    (tmp_path / "long.csv").write_text("name,city\n" + "Ann,Rome\n" * 3_000_000)
    search.page.locator("#search-files").set_input_files(tmp_path / "long.csv")
    expect(search.page.locator("#search-progress")).to_contain_text("Reading long.csv")
    search.page.keyboard.press("Escape")
    expect(search.page.locator("#search-find")).to_have_text("Search")
    assert search.state("collection.texts.length") == 6


# The request for passages of a number is stopped when nine of them have come.
STOP_IN = """(number) => {
  const { engine } = pyappPage.app;
  const { call } = engine;
  let count = 0;
  engine.call = function (method, params, more) {
    if (method !== "search.index" || (count += 1) !== number) return call.call(this, method, params, more);
    delete engine.call;
    const onEvent = (event) => {
      more.onEvent(event);
      if (event.type === "item" && event.index === 8) pyappPage.search.button.stop();
    };
    return call.call(this, method, params, { ...more, onEvent });
  };
}"""
WHOLE = """(({ collection: { texts, unfinished }, button }) =>
  texts.length === 3 && unfinished.length === 0 && !button.running)(pyappPage.search)"""
PASSAGES = "collection.passages.map(({ text, start, end }) => [text, start, end])"


def test_stop_and_reload_keep_what_is_embedded_and_offer_the_rest(
    search: SearchPage, encoder: Path, tmp_path: Path
) -> None:
    """Of several texts, and in the middle of a long one: what comes then is what comes without a stop."""
    page = search.page
    search.choose_folder(encoder)
    search.split()
    names = ("one.txt", "book.txt", "three.txt")
    for name, times in zip(names, (40, 1500, 40), strict=True):
        sentences = (f"The {WORDS[number % 40]} ran home. " * (number % 7 + 1) for number in range(times))
        (tmp_path / name).write_text("\n\n".join(sentences))
    page.evaluate("pyappPage.search.begin()")
    page.locator("#search-files").set_input_files([tmp_path / name for name in names])
    search.until(WHOLE)
    expected, vectors = search.state(PASSAGES), search.state("collection.vectors.length")
    assert len(expected) > 400 and {text for text, *_ in expected} == {0, 1, 2}

    page.evaluate("pyappPage.search.begin()")
    page.evaluate(STOP_IN, 2)
    page.locator("#search-files").set_input_files([tmp_path / name for name in names])
    expect(search.note).to_contain_text("2 texts are only in part in the collection")
    some = search.state(PASSAGES)
    assert {text for text, *_ in some} == {0, 1} and len(some) < len(expected) - 100
    search.ask("home")
    expect(search.results.first).to_be_visible()
    expect(search.note).to_contain_text("only in part")
    page.reload()
    search.wait_ready()
    page.locator("#search-question").wait_for()
    search.state("ready")
    expect(search.note).to_contain_text("2 texts are only in part in the collection")
    assert search.state(PASSAGES) == some
    search.choose_folder(encoder)
    page.evaluate(STOP_IN, 1)
    search.note.get_by_role("button", name="Add the rest").click()
    search.until(f"pyappPage.search.collection.passages.length > {len(some)} && !pyappPage.search.button.running")
    assert len(search.state(PASSAGES)) < len(expected)
    search.note.get_by_role("button", name="Add the rest").click()
    search.until(WHOLE)
    expect(search.note).to_be_hidden()
    assert search.state(PASSAGES) == expected and search.state("collection.vectors.length") == vectors

    # A text that is there is not added twice. What is added meanwhile interrupts nothing.
    page.locator("#search-files").set_input_files(tmp_path / "three.txt")
    expect(search.note).to_contain_text("three.txt (already here)")
    page.evaluate("pyappPage.search.begin()")
    page.locator("#search-files").set_input_files(tmp_path / "book.txt")
    search.until("pyappPage.search.growing !== null")
    page.locator("#search-files").set_input_files([tmp_path / name for name in ("one.txt", "three.txt")])
    search.until(WHOLE)
    assert len(search.state(PASSAGES)) == len(expected)

    # A collection that is deleted while it grows stays deleted.
    page.evaluate("pyappPage.search.begin()")
    page.locator("#search-files").set_input_files(tmp_path / "book.txt")
    search.until("pyappPage.search.growing !== null")
    page.evaluate("(async ({ search }) => { search.gone = search.collection.id })(pyappPage)")
    search.until("pyappPage.search.store.list().then((all) => all.some(({ id }) => id === pyappPage.search.gone))")
    if not page.locator("#history-collection").evaluate("({ open }) => open"):
        page.locator("#history-collection summary").first.click()
    page.get_by_role("button", name="Delete book.txt", exact=True).first.click()  # the last changed
    search.until("!pyappPage.search.button.running")
    search.over()
    assert search.state("store.read(pyappPage.search.gone)") is None


def test_settings_are_remembered(still: StoryPage, still_site: SiteServer) -> None:
    page = still.page
    page.goto(f"{still_site.url}#search")
    shown = """() => [
      ...["size", "overlap"].map((name) => document.getElementById(`search-${name}`).value),
      JSON.stringify(pyappPage.search.options)]"""

    def change(value: int) -> None:
        page.evaluate(
            "(value) => { const field = document.getElementById('search-size'); field.value = value;"
            " field.dispatchEvent(new Event('change')); }",
            value,
        )

    def found() -> list[str]:
        still.until("globalThis.pyappPage?.search !== undefined && pyappPage.search.ready.then(() => true)")
        return list(page.evaluate(shown))

    def after_reload() -> list[str]:
        page.reload()
        return found()

    assert found() == ["200", "40", '{"size":200,"overlap":40}']
    change(64)
    change(5)  # below the limit: the last sound value counts
    assert after_reload() == ["64", "40", '{"size":64,"overlap":32}']
    for stored in ("null", "[1", '{"size": 1e9, "overlap": "much", "prompts": 3}'):  # of another page of the origin
        page.evaluate("(stored) => localStorage.setItem('pyapp.search-settings', stored)", stored)
        assert after_reload() == ["200", "40", '{"size":200,"overlap":40}']


def test_a_text_without_a_model_replaces_the_error_before_it(still: StoryPage, still_site: SiteServer) -> None:
    page = still.page
    page.goto(f"{still_site.url}#search")
    page.locator("#search-question").fill("a fox")
    page.locator("#search-find").click()
    error = page.locator("#search-error [role=alert]")
    expect(error).to_contain_text("There is no text to search")
    page.locator("#search-paste").fill("The fox ran.")
    page.locator("#search-add").click()
    expect(error).to_contain_text("There is no model")
