"""Writing a story: the same tokens as natively, Stop, seeds, the keyboard."""

from __future__ import annotations

import asyncio
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import WIDE, watched
from e2e.model_files import write_pair
from e2e.page import StoryPage
from pyapp import tasks
from scripts.serve import SiteServer

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
# Time from the click on Stop until the sheet says so, in the page's own clock.
STOP = """() => new Promise((resolve) => {
  const sheet = document.getElementById("sheet"), start = performance.now();
  new MutationObserver(() => sheet.dataset.state === "done" && resolve(performance.now() - start))
    .observe(sheet, { attributes: true });
  document.getElementById("generate").click();
})"""


def native_ids(model: Path, tokenizer: Path, prompt: str, **options: float) -> list[int]:
    """Token ids of the same generation in this process."""

    async def collect() -> list[int]:
        events = [event async for event in tasks.generate(str(model), prompt, options, tokenizer=str(tokenizer))]
        assert events[-1].type == "done", events[-1]
        return [event.id for event in events if event.type == "token" and event.id is not None]

    with ThreadPoolExecutor(1) as pool:  # Playwright's own event loop runs in this thread
        return pool.submit(asyncio.run, collect()).result()


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0, "max_new_tokens": 200},
        {"temperature": 0.9, "top_p": 0.8, "top_k": 40, "repetition_penalty": 1.1, "seed": 5, "max_new_tokens": 96},
    ],
    ids=["greedy", "sampled"],
)
def test_embedded_story_equals_the_native_one(story: StoryPage, dist: Path, options: dict[str, float]) -> None:
    prompt = "One day, a little fox"
    story.settings(**options)
    text = story.write(prompt)
    files = dist / "models" / "stories"
    expected = native_ids(files / "model.bin", files / "tokenizer.bin", prompt, **options)
    assert len(expected) >= 20
    assert story.ids() == expected
    assert text.startswith(prompt)
    assert int(story.metric("tokens").replace(",", "")) == len(expected)
    assert float(story.metric("speed").replace(",", "")) > 1
    assert story.metric("first").endswith("s")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs llama2.c's stories260K")
def test_real_checkpoint_prints_what_llama2c_prints(story: StoryPage) -> None:
    story.pick([SHARED / "stories260K.bin", SHARED / "tok512.bin"])
    expect(story.page.locator("#model-name")).to_have_text("stories260K.bin")
    story.settings(temperature=0, max_new_tokens=256)
    expected = (SHARED / "stories260K.txt").read_text().strip()
    assert story.write("").strip() == expected


def test_the_precision_of_models(story: StoryPage, tmp_path: Path) -> None:
    """Fast: a large file in floating point becomes 8-bit; exact: it stays as it is. The model is loaded anew."""
    files = write_pair(tmp_path, dim=256, layers=6)
    options: dict[str, float] = {"temperature": 0, "max_new_tokens": 48}
    story.pick(files)
    expect(story.page.locator("#model-name")).to_have_text("model.bin")
    story.settings(**options)
    written = []
    for precision in ("exact", "fast", "exact", "fast"):
        story.open_models()
        story.page.locator("#model-precision").select_option(precision)
        story.close_dialog()
        story.write("the little fox")
        written.append(story.ids())
    assert written[:2] == written[2:]
    assert written[0] == native_ids(files[0], files[1], "the little fox", **options)
    assert written[1] != written[0]


def test_stop_takes_effect_at_once_and_the_page_stays_usable(story: StoryPage, tmp_path: Path) -> None:
    story.pick(write_pair(tmp_path, dim=256, layers=6, context=1024))
    expect(story.page.locator("#model-name")).to_have_text("model.bin")
    story.settings(temperature=0, max_new_tokens=1024)
    story.start("the little fox")
    story.until("pyappPage.story.output.ids.length > 5")
    milliseconds = story.page.evaluate(STOP)
    assert milliseconds < 2000  # with other suites beside it
    written = len(story.ids())
    assert written < 1000
    expect(story.page.locator("#ending")).to_contain_text("stopped")
    expect(story.generate_button).to_have_text("Generate")
    story.settings(max_new_tokens=16)
    story.write("again")
    assert len(story.ids()) == 16


def test_stop_reaches_python_that_hears_no_messages(story: StoryPage, tmp_path: Path) -> None:
    """The message is discarded on purpose; only the flag in shared memory remains."""
    story.pick(write_pair(tmp_path, dim=256, layers=6, context=1024))
    expect(story.page.locator("#model-name")).to_have_text("model.bin")
    assert story.page.evaluate("crossOriginIsolated")
    story.page.evaluate(
        "globalThis.worker = pyappPage.app.engine.worker; const post = worker.postMessage.bind(worker);"
        "worker.postMessage = (message) => message.method === 'cancel' || post(message); 1"
    )
    story.settings(temperature=0, max_new_tokens=1024)
    story.start("the little fox")
    story.until("pyappPage.story.output.ids.length > 5")
    story.page.evaluate(STOP)
    expect(story.page.locator("#ending")).to_contain_text("stopped")
    assert len(story.ids()) < 1000
    story.settings(max_new_tokens=16)
    story.write("again")
    assert len(story.ids()) == 16
    assert story.page.evaluate("worker === pyappPage.app.engine.worker"), "the engine was restarted"


def test_kept_seed_writes_the_same_story(story: StoryPage) -> None:
    story.settings(temperature=1, max_new_tokens=64, seed=11)
    expect(story.page.locator("#keep-seed")).to_be_checked()
    first = story.write("The boat")
    assert story.write("The boat") == first
    story.page.get_by_role("button", name="Another seed").click()
    assert story.page.locator("#seed").input_value() != "11"
    assert story.write("The boat") != first
    story.page.locator("#keep-seed").uncheck()
    before = story.page.locator("#seed").input_value()
    story.write("The boat")
    assert story.page.locator("#seed").input_value() != before


def test_settings_are_kept_and_nonsense_is_corrected(still: StoryPage, still_site: SiteServer) -> None:
    story, shown = still, "globalThis.pyappPage?.story !== undefined"
    story.page.goto(still_site.url)
    story.until(shown)
    story.settings(temperature=7, top_p=-3, max_new_tokens=40)
    assert story.page.locator("#temperature").input_value() == "2"
    expect(story.page.locator(".slider", has=story.page.locator("#temperature"))).to_contain_text("The maximum is 2.")
    story.page.locator("#seed").fill("")
    story.page.locator("#seed").blur()
    assert int(story.page.locator("#seed").input_value()) > 0
    assert story.page.locator("#top_p").input_value() == "0.05"
    story.page.reload()
    story.until(shown)
    assert story.page.locator("#temperature").input_value() == "2"
    assert story.page.locator("#max_new_tokens").input_value() == "40"
    story.page.evaluate("document.querySelector('.more').open = true")
    story.page.get_by_role("button", name="Reset settings").click()
    assert story.page.locator("#temperature").input_value() == "0.8"
    # What another page of the origin has written under the same name.
    for stored in ("null", "[1", '{"temperature": "hot", "max_new_tokens": 1e9, "top_p": null}'):
        story.page.evaluate("(stored) => localStorage.setItem('pyapp.settings', stored)", stored)
        story.page.reload()
        story.until(shown)
        assert story.page.locator("#temperature").input_value() == "0.8"
        assert story.page.locator("#top_p").input_value() == "0.9"
        assert 8 <= int(story.page.locator("#max_new_tokens").input_value()) <= 1024


# Whether the second letter that was written stands to the right of the first.
RUNS_RIGHT = """() => {
  const [node, range] = [document.getElementById("story-output").firstChild, document.createRange()];
  const left = (at) => (range.setStart(node, at), range.setEnd(node, at + 1), range.getBoundingClientRect().left);
  return left(0) < left(1);
}"""


def test_copy(story: StoryPage, browser: BrowserContext) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    story.settings(max_new_tokens=24)
    text = story.write("One \u202eday")  # which turns what follows it on the line, but not the story
    assert story.page.evaluate(RUNS_RIGHT)
    story.page.get_by_role("button", name="Copy text").click()
    expect(story.page.locator("#copy")).to_have_text("Copied")
    assert story.page.evaluate("navigator.clipboard.readText()") == text
    # Pages of http:// addresses cannot write to the clipboard.
    story.page.evaluate("navigator.clipboard.writeText('') && (navigator.clipboard.writeText = undefined)")
    story.page.evaluate("document.getElementById('copy').textContent = 'Copy text'")
    story.page.locator("#copy").click()
    expect(story.page.locator("#copy")).to_have_text("Copied")
    assert story.page.evaluate("navigator.clipboard.readText()") == text
    story.page.evaluate("delete navigator.clipboard.writeText")


def test_everything_by_keyboard(story: StoryPage) -> None:
    """Tab reaches every control in the order of the page, each shows its focus; Ctrl+Enter writes, Escape stops."""
    page = story.page
    page.reload()  # the focus is at the beginning
    story.wait_ready()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    seen = []
    for _ in range(40):
        page.keyboard.press("Tab")
        where = page.evaluate(
            "(() => { const e = document.activeElement, s = getComputedStyle(e), c = e.closest('.composer');"
            " const ring = s.outlineStyle !== 'none' || (c && getComputedStyle(c).borderColor !== '');"
            " return [e.id || e.textContent.trim().slice(0, 20) || e.tagName, ring, e === document.body] })()"
        )
        if where[2]:
            break
        seen.append(where[0])
        assert where[1], f"no visible focus on {where[0]}"
    wanted = ["open-storage", "toggle-theme", "prompt", "generate", "choose-model", "temperature", "seed"]
    assert [name for name in seen if name in wanted] == wanted
    page.locator("#prompt").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("Once")
    page.keyboard.press("Control+Enter")
    story.wait_done()
    assert story.text().startswith("Once")
    page.locator("#choose-model").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#model-dialog")).to_be_visible()
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") == "choose-model"


def test_what_is_typed_stays(story: StoryPage) -> None:
    """An opening can be undone; a reload brings the words back, and the view, after the link to the content, too."""
    page, field = story.page, story.page.locator("#prompt")
    field.fill("My own words")
    page.locator(".chip").nth(1).click()
    expect(field).to_have_value("Long ago, there was a young dragon")
    page.keyboard.press("Control+z")
    expect(field).to_have_value("My own words")
    page.locator(".chip").first.click()
    page.keyboard.type(" hen")
    page.evaluate("location.hash = '#chat'")
    page.wait_for_function("() => pyappPage.chat !== undefined")
    page.locator(".skip-link").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("[document.activeElement.id, location.hash]") == ["main", "#chat"]
    page.locator("#chat-model").get_by_role("button", name="Choose another model").click()
    story.models_opened()
    page.go_back()  # as the way out of a dialog, on telephones
    expect(page.locator("dialog[open]")).to_have_count(0)
    expect(page.locator("#view-story")).to_be_visible()
    locale = page.context.new_cdp_session(page)
    locale.send("Emulation.setLocaleOverride", {"locale": "de-DE"})
    page.reload()
    story.wait_ready()
    expect(field).to_have_value("Once upon a time, there was a little hen")
    page.evaluate("pyappPage.story.output.show({ prompt: '', text: 'Old', seed: 1, reason: 'length', tokens: 1234 })")
    assert story.metric("tokens") == "1,234"  # as the whole page is in English: 1.234 would be another number
    locale.send("Emulation.setLocaleOverride")
    locale.detach()


def test_keys_stop_only_what_is_meant(story: StoryPage) -> None:
    """Enter presses once, however long it is held; Escape stops no work of another view, nor while letters are
    composed.
    """
    page = story.page
    story.settings(max_new_tokens=16).write("One day")
    page.get_by_role("button", name="Go on").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#story-text")).to_be_focused()  # the button goes away
    story.until("pyappPage.story.output.ids.length === 32 && !pyappPage.story.button.running")
    # A model that needs half a second for a story of one word.
    page.evaluate(
        "pyappPage.app.engine.call = async function (name, params, more) {"
        " if (name !== 'generate') return Object.getPrototypeOf(this).call.call(this, name, params, more);"
        " more.onEvent({ type: 'token', text: ' end', id: 1 });"
        " await new Promise((resolve) => { globalThis.answer = resolve; more.signal.onabort = resolve; });"
        " return { type: 'done', reason: more.signal.aborted ? 'cancelled' : 'stop' } }, 1"
    )
    for place, keys in (("#generate", ["Enter"]), ("#prompt", ["Control", "Enter"])):
        page.locator(place).focus()
        for key in (*keys, *keys[-1:] * 4):
            page.keyboard.down(key)
        for key in keys:
            page.keyboard.up(key)
        page.evaluate(
            "document.body.dispatchEvent("
            "new KeyboardEvent('keydown', { key: 'Escape', isComposing: true, bubbles: true }))"
        )
        page.evaluate("location.hash = '#search'")
        expect(page.locator("#view-story")).to_be_hidden()
        page.keyboard.press("Escape")
        page.evaluate("location.hash = '#story'")
        expect(story.generate_button).to_have_text("Stop")
        story.until("globalThis.answer && (answer(), delete globalThis.answer)")
        expect(page.locator("#ending")).to_have_text("The story is finished.")
    story.generate_button.click()
    story.until("Boolean(globalThis.answer)")
    page.keyboard.press("Escape")
    expect(page.locator("#ending")).to_have_text("You stopped it here.")
    page.evaluate("delete pyappPage.app.engine.call")


def test_a_slow_disk_keeps_nobody_waiting(story: StoryPage) -> None:
    """A story that is written is not still being written because it is being stored."""
    page = story.page
    page.evaluate(
        "() => { const { store } = pyappPage.story; const put = store.put.bind(store);"
        " const open = new Promise((resolve) => { globalThis.letIn = resolve; });"
        " store.put = async (...values) => { await open; return put(...values); } }"
    )
    story.settings(max_new_tokens=8).write("One day")
    expect(story.generate_button).to_have_text("Generate")
    page.evaluate("pyappPage.app.restart()")  # the model is loaded again
    story.wait_ready()
    expect(page.locator("#engine-status")).to_have_attribute("data-state", "ready")
    story.start("Two days")
    story.until("pyappPage.story.output.text.startsWith('Two days') && !pyappPage.story.button.running")
    page.evaluate("letIn(); delete pyappPage.story.store.put; 1")
    expect(page.locator("#history-story")).to_be_attached()
    titles = "pyappPage.story.store.list().then((all) => all.map(({ title }) => title.slice(0, 8)))"
    story.until(f"{titles}.then((all) => ['One day ', 'Two days'].every((title) => all.includes(title)))")


def test_a_dead_worker_is_replaced(story: StoryPage) -> None:
    """It dies before it has answered what models there are."""
    story.page.evaluate(
        "pyappPage.app.engine.worker.terminate(), pyappPage.app.listing = pyappPage.story.choice.model = null,"
        " pyappPage.story.choice.offered = false, 1"
    )
    story.start("One day")
    story.page.get_by_role("button", name="Stop").click()
    expect(story.error).to_contain_text("restarted", timeout=10_000)
    story.wait_ready()
    expect(story.error).to_contain_text("restarted")  # it is still there to be read
    story.settings(max_new_tokens=8)
    story.write("One day")


def test_stop_while_the_engine_restarts(story: StoryPage) -> None:
    """Nothing of it has begun, so there is nothing to say: the sheet is empty again, and the engine starts. The second
    restart ends what the page asked after the first.
    """
    story.settings(max_new_tokens=8).write("One day")
    about = story.page.evaluate(
        "async () => { const { app, story } = pyappPage; app.restart(); app.restart(); const over = story.generate();"
        " story.button.stop(); await over; return app.engine.about }"
    )
    assert about is None, "it was too late"
    expect(story.page.locator("#sheet-empty")).to_be_visible()
    expect(story.page.locator("#story-text")).to_be_hidden()
    expect(story.error).to_have_count(0)
    story.wait_ready()
    story.settings(max_new_tokens=8)
    story.write("One day")


def test_screen_readers_hear_the_beginning_and_the_end(story: StoryPage) -> None:
    page = story.page
    page.evaluate(
        "globalThis.heard = []; const region = document.getElementById('announcer');"
        "new MutationObserver(() => heard.push(region.textContent)).observe(region, { childList: true })"
    )
    story.settings(max_new_tokens=64)
    story.write("One day")
    heard = page.evaluate("heard")
    assert heard[0] == "Writing the story."
    assert heard[-1].endswith("words.")
    assert len(heard) <= 4  # not a word at a time


def test_a_story_goes_on_and_is_kept(story: StoryPage) -> None:
    page = story.page
    story.settings(max_new_tokens=16, temperature=0.8)
    first = story.write("One day, a fox")
    expect(page.locator("#ending")).to_contain_text("length")
    page.get_by_role("button", name="Go on").click()
    story.until("pyappPage.story.output.ids.length > 16")
    story.wait_done()
    whole = story.text()
    assert whole.startswith(first) and len(story.ids()) == 32
    page.get_by_role("button", name="Another", exact=True).click()
    # A page that still stores asks whether to leave it; the test leaves it.
    stored = "!pyappPage.story.button.running && !pyappPage.story.store.busy"
    story.until(f"pyappPage.story.output.ids.length === 16 && {stored}")
    other = story.text()
    assert other.startswith("One day, a fox") and other != first
    page.reload()
    story.wait_done()
    assert story.text() == other
    page.locator("#history-story summary").click()
    rows = page.locator("#history-story .history-row")
    expect(rows.nth(1)).to_be_visible()  # the list is read after the panel opens
    rows.nth(1).locator(".history-open").click()
    story.until(f"pyappPage.story.output.text.length === {len(whole)}")
    assert story.text() == whole and story.metric("tokens") == "32"
    rows.nth(1).get_by_role("button", name="Delete").click()
    expect(page.locator("#sheet-empty")).to_be_visible()
    page.locator("#history-story").get_by_role("button", name="Undo").click()
    expect(page.locator("#history-story .history-note")).to_have_text("It is back.")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Export all (ZIP)").click()
    with zipfile.ZipFile(saved.value.path()) as archive:
        assert whole.strip() in [archive.read(name).decode().strip() for name in archive.namelist()]
    story.wait_ready()


NO_ROOM = """() => {
  globalThis.transaction = IDBDatabase.prototype.transaction;
  IDBDatabase.prototype.transaction = function (tables, mode) {
    if (mode === "readwrite") throw new DOMException("", "QuotaExceededError");
    return transaction.call(this, tables, mode);
  };
}"""


# A browser in which the visitor has refused all storage: even a look at it is an error.
REFUSED = """for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"])
  Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError") } });
LockManager.prototype.request = async () => { throw new DOMException("denied", "SecurityError") };
Object.defineProperty(navigator, "serviceWorker", { get() { throw new DOMException("denied", "SecurityError") } });"""


def test_all_views_open_where_the_browser_refuses_all_storage(browser: BrowserContext, isolated: SiteServer) -> None:
    page = browser.new_page()
    page.add_init_script(REFUSED)
    with watched(page) as story:
        story.open(isolated.url)
        story.settings(max_new_tokens=8)
        assert story.write("One day")
        page.locator("#history-story summary").click()
        expect(page.locator("#history-story")).to_contain_text("keeps nothing for this page")
        expect(page.locator("#history-story .history-row")).to_have_count(1)
        for view in ("transcribe", "chat", "search", "lab"):
            page.evaluate(f"location.hash = '#{view}'")
            page.wait_for_function(f"() => pyappPage.{view} !== undefined")
            page.evaluate(f"pyappPage.{view}.ready")
            assert page.locator("[role=alert]:visible").all_inner_texts() == []


def test_a_story_that_cannot_be_kept_stays_and_the_oldest_can_be_deleted(story: StoryPage) -> None:
    page = story.page
    story.settings(max_new_tokens=16)
    story.write("The first of two")
    page.evaluate(NO_ROOM)
    text = story.write("Another that finds no room")
    page.evaluate("IDBDatabase.prototype.transaction = transaction; 1")
    expect(story.error).to_contain_text("is full")
    assert story.text() == text  # it can be copied
    leaving = "dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    assert page.evaluate(leaving) is False  # the browser asks whether to leave
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert page.evaluate(leaving) is False
    notice = page.locator("#page-notice")  # nor does a new version come in the middle
    update = "navigator.serviceWorker.dispatchEvent(new MessageEvent('message', { data: { notice: 'update-ready' } }))"
    story.until(f"{update} && document.querySelector('#page-notice button') !== null")
    notice.get_by_role("button", name="Reload to use it").click()
    expect(notice).to_contain_text("Something would be lost now")
    page.evaluate(update.replace("update-ready", "replaced"))
    expect(notice).to_contain_text("Another tab has begun to use a new version")
    page.evaluate("document.getElementById('page-notice').replaceChildren()")
    page.get_by_role("button", name="Another", exact=True).click()
    story.until("pyappPage.story.output.ids.length === 16 && !pyappPage.story.button.running")
    page.evaluate("navigator.storage.estimate = async () => ({ usage: 0, quota: 100 }); 1")
    card = page.locator("#history-story")
    card.evaluate("(card) => { card.open = true; return pyappPage.story.card.refresh(pyappPage.story.entry.id) }")
    expect(card).to_contain_text("That is too much")
    before = page.evaluate("pyappPage.story.store.list().then(({ length }) => length)")
    assert before >= 2
    card.get_by_role("button", name="Delete the oldest").click()
    expect(card.locator(".history-row")).to_have_count(before - 1)
    page.evaluate("delete navigator.storage.estimate")


def test_a_double_click_starts_and_opens_and_undoes_neither(story: StoryPage) -> None:
    story.settings(max_new_tokens=64)
    story.page.locator("#prompt").fill("One day")
    story.generate_button.dblclick()
    story.wait_done()
    assert len(story.text()) > len("One day") + 40

    page, dialog = story.page, story.page.locator("#storage-dialog")
    page.locator("#open-storage").dblclick()
    expect(dialog).to_be_visible()
    box = dialog.locator("h2").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(4, 400)  # a selection that ends beside it
    page.mouse.up()
    expect(dialog).to_be_visible()
    page.mouse.click(4, 400)
    expect(dialog).to_be_hidden()


def test_each_view_keeps_its_place(story: StoryPage) -> None:
    """A view that is opened begins at its top; one that was scrolled is found there again."""
    page = story.page

    def go(view: str) -> int:
        box = page.locator(f"#views a[href='#{view}']").bounding_box()
        assert box is not None and box["y"] >= 0  # a click of Playwright's would scroll the page
        page.mouse.click(box["x"] + 5, box["y"] + 5)
        page.wait_for_function(f"() => !document.getElementById('view-{view}').hidden")
        return int(page.evaluate("scrollY"))

    page.set_viewport_size({"width": 390, "height": 700})
    page.evaluate("scrollTo(0, 300)")
    assert go("search") == 0
    assert go("story") == 300
    page.go_back()
    page.wait_for_function("() => !document.getElementById('view-search').hidden")
    assert page.evaluate("scrollY") == 0
    page.set_viewport_size(WIDE)


def test_the_list_shows_what_another_tab_has_deleted(story: StoryPage) -> None:
    page, rows = story.page, story.page.locator("#history-story .history-row")
    story.settings(max_new_tokens=8).write("Another tab")
    page.evaluate("document.getElementById('history-story').open = true")
    expect(rows.first).to_contain_text("Another tab")
    page.evaluate("pyappPage.story.store.remove(pyappPage.story.entry.id)")  # as another tab does: the list is not told
    expect(rows.first).to_contain_text("Another tab")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(rows.filter(has_text="Another tab")).to_have_count(0)


def test_on_paper_there_is_the_story_alone(story: StoryPage) -> None:
    story.settings(max_new_tokens=8)
    story.write("One day")
    story.page.emulate_media(media="print")
    expect(story.page.locator("#story-text")).to_be_visible()
    for hidden in (".topbar", "#generate", "#story-model", "#copy", ".page-foot"):
        expect(story.page.locator(hidden)).to_be_hidden()
    story.page.emulate_media(media="screen")
