"""Chat: the turns of a model with a template and of one without, what is kept, Markdown of strangers, looks."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.chat_page import ChatPage
from e2e.conftest import PHONE, WIDE
from e2e.page import StoryPage
from pyapp import tasks
from pyapp.formats.source import FileSource
from tests.text.chat_model import write_chat_model
from tests.text.test_denoising import folder_of

GREEDY = {"temperature": 0, "top_p": 0.9, "max_new_tokens": 24}
HOSTILE = """# Title

Some *emphasis*, `code`, <img src=x onerror="globalThis.hacked = 1"> and <script>globalThis.hacked = 2</script>.

[good](https://example.org/a) [bad](javascript:globalThis.hacked=3) ![picture](https://example.org/track.png)

| a | b |
| - | - |
| 1 | 2 |

- [x] done

```python
print("fox")
```
"""

# Two tabs change the same conversation: both texts are kept. The ids differ, and how many more there are.
TWO_TABS = """async () => {
  const { store } = pyappPage.chat;
  const [{ id }] = await store.list();
  const tabs = [await store.read(id), await store.read(id)];
  for (const [number, { entry, content }] of tabs.entries()) {
    const [first, ...others] = content.turns;
    await store.put(entry, { ...content, turns: [{ ...first, text: ["mine", "theirs"][number] }, ...others] });
  }
  const after = await Promise.all((await store.list()).map((one) => store.read(one.id)));
  const texts = after.flatMap(({ content }) => content.turns.map(({ text }) => text));
  return [tabs[0].entry.id !== tabs[1].entry.id, texts.filter((text) => ["mine", "theirs"].includes(text)).length];
}"""
# The worker gets files only after `letIn()`, as while it still starts.
HOLD_FILES = """() => {
  const { engine } = pyappPage.app;
  const call = engine.call.bind(engine);
  const open = new Promise((resolve) => { globalThis.letIn = resolve; });
  engine.call = async (name, ...rest) => (name === "models.add" && await open, call(name, ...rest));
}"""
# What the page's earlier versions kept: a database for conversations, with whole records.
EARLIER = """(record) => new Promise((resolve, reject) => {
  const request = indexedDB.open("pyapp-conversations", 1);
  request.onerror = () => reject(request.error);
  request.onupgradeneeded = () => request.result.createObjectStore("conversations", { keyPath: "id" });
  request.onsuccess = () => {
    const transaction = request.result.transaction("conversations", "readwrite");
    transaction.objectStore("conversations").put(record);
    transaction.oncomplete = () => (request.result.close(), resolve());
  };
})"""
# What an element shows, whenever that changes.
SHOWN = """(id) => {
  const shown = globalThis.shown = [];
  globalThis.observer?.disconnect();
  const element = document.getElementById(id);
  globalThis.observer = new MutationObserver(() => shown.push(element.textContent));
  observer.observe(element, { childList: true, subtree: true, characterData: true });
}"""
# Each change is drawn: a small model ends before the next frame.
DRAW_AT_ONCE = """() => {
  Object.defineProperty(pyappPage.chat, "rested", { configurable: true, get: () => 0, set() {} });
  globalThis.drawLater ??= requestAnimationFrame;
  globalThis.requestAnimationFrame = (draw) => (draw(), 0);
}"""
DRAW_LATER = """() => {
  Object.defineProperty(pyappPage.chat, "rested", { value: 0, writable: true });
  globalThis.requestAnimationFrame = drawLater;
}"""
EARLIER_LEFT = """() => new Promise((resolve) => {
  const request = indexedDB.open("pyapp-conversations");
  request.onsuccess = () => {
    const count = request.result.transaction("conversations").objectStore("conversations").count();
    count.onsuccess = () => (request.result.close(), resolve(count.result));
  };
})"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_chat_model(tmp_path_factory.mktemp("model"))


def native_answer(files: list[Path], messages: list[dict[str, str]]) -> str:
    """The same turn, here."""

    async def collect() -> str:
        sources = {path.name: FileSource(path) for path in files}
        events = [event async for event in tasks.chat(sources, messages, GREEDY, key=str(files[0]))]
        assert events[-1].type == "done", events[-1]
        return "".join(event.text for event in events if event.type == "token")

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, collect()).result()


def test_turns_of_a_folder_with_a_template(chat: ChatPage, files: list[Path]) -> None:
    chat.use(files).settings(**GREEDY)
    chat.page.locator("#chat-system").fill("Be short.")
    system = {"role": "system", "content": "Be short."}
    first = chat.say("Hello, fox")
    question = {"role": "user", "content": "Hello, fox"}
    assert first == native_answer(files, [system, question])
    expect(chat.template).to_be_hidden()
    used = chat.last()["context_tokens"]
    second = chat.say("And then?")
    asked = [system, question, {"role": "assistant", "content": first}, {"role": "user", "content": "And then?"}]
    assert second == native_answer(files, asked)
    # What the model has read and written is not read again.
    assert chat.last()["reused_tokens"] == used
    expect(chat.turn(3)).to_contain_text("tokens per second")
    expect(chat.turn(3)).to_contain_text(f"{chat.last()['context_tokens']} of 512 tokens of context used")

    chat.turn(3).get_by_role("button", name="Go on").click()
    longer = chat.answered()
    assert longer.startswith(second) and len(longer) > len(second)
    chat.turn(3).get_by_role("button", name="again").click()
    assert chat.answered() == second
    expect(chat.turn(3).locator(".versions")).to_contain_text("2 / 2")

    chat.turn(0).get_by_role("button", name="Edit").click()
    chat.turn(0).locator("textarea").fill("Hello, wolf")
    chat.turn(0).get_by_role("button", name="Send").click()
    chat.until("pyappPage.chat.conversation.path.length === 2")
    assert chat.answered() == native_answer(files, [system, {"role": "user", "content": "Hello, wolf"}])
    expect(chat.page.locator(".history-row", has_text="Hello, fox")).to_have_count(1)
    chat.turn(0).get_by_role("button", name="version before").press("Enter")
    assert chat.texts() == ["Hello, fox", first, "And then?", second]
    expect(chat.turn(0).get_by_role("button", name="next version")).to_be_focused()


def test_a_model_without_a_template_and_its_limits(chat: ChatPage, tmp_path: Path, dist: Path) -> None:
    # The embedded one is no surprise: the view says what it does, and offers others.
    storyteller, offer = chat.page.locator("#chat-storyteller"), chat.page.locator("#chat-offer")
    expect(storyteller).to_contain_text("answers no question")
    offer.get_by_role("button", name="SmolLM2 135M, 8-bit 145 MB").click()
    expect(chat.models_opened().get_by_role("button", name="Download SmolLM2 135M, 8-bit")).to_be_focused()
    chat.close_dialog()
    storyteller.get_by_role("button").click()
    expect(chat.models_opened()).to_contain_text("Qwen2.5 0.5B")
    chat.close_dialog()
    expect(chat.template).to_be_hidden()
    chat.use([dist / "models" / "stories" / name for name in ("model.bin", "tokenizer.bin")], "model.bin")
    expect(storyteller).to_be_hidden()
    expect(offer).to_be_hidden()
    chat.settings(**GREEDY, context=128)
    chat.say("Once")
    expect(chat.template).to_contain_text("no chat template")
    expect(chat.template).to_contain_text("User:")
    chat.page.set_viewport_size(PHONE)  # where an empty conversation is longer than the window, too
    chat.page.evaluate("pyappPage.chat.begin()")
    assert chat.page.evaluate("[scrollY, document.documentElement.scrollHeight > innerHeight]") == [0, True]
    chat.field.fill("the fox ran. " * 200)
    chat.field.press("Enter")
    expect(chat.error).to_contain_text("there is room for 128")
    expect(chat.error).to_contain_text("Shorten the message, or set")
    expect(chat.error).to_contain_text("set “Leave out the oldest text when the context is full”")
    expect(chat.error.locator(".error-where")).to_have_count(0)  # no name of the engine for what was sent
    box, composer = chat.error.bounding_box(), chat.page.locator("#chat-form").bounding_box()
    assert box and composer and 0 < box["y"] < box["y"] + box["height"] <= composer["y"]
    assert chat.texts()[-1].startswith("the fox ran.")  # the message is not lost
    chat.page.evaluate("document.getElementById('chat-settings').open = true")
    chat.page.locator("#chat-rolling").check()
    chat.page.get_by_role("button", name="Answer this").click()
    assert chat.answered() and chat.page.evaluate("pyappPage.chat.conversation.path.length") == 2
    chat.page.locator("#chat-rolling").uncheck()
    chat.page.set_viewport_size(WIDE)
    chat.page.evaluate("pyappPage.chat.begin()")
    # The engine's name of a setting is not shown, but its label.
    chat.page.evaluate("pyappPage.chat.settings.inputs.get('context').number.value = '99999'; 1")
    chat.field.fill("Two")
    chat.field.press("Enter")
    expect(chat.error).to_contain_text("“Context” must be from 1 to 288")
    chat.page.evaluate("pyappPage.chat.begin()")
    chat.settings(max_new_tokens=288, context=4096)
    chat.field.fill("One day")
    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path.length === 2")
    chat.page.keyboard.press("Escape")
    chat.answered()
    assert chat.page.evaluate("pyappPage.chat.conversation.path[1].reason") in ("cancelled", "stop", "stop_string")
    broken = write_chat_model(tmp_path)
    weights = next(path for path in broken if path.suffix == ".safetensors")
    weights.write_bytes(weights.read_bytes()[:-1000])
    chat.pick_model(broken)
    expect(chat.page.locator("#model-error [role=alert]")).to_contain_text("model.safetensors")
    chat.close_dialog()
    expect(chat.page.locator("#chat-model .model-name")).to_have_text("model.bin")  # it stays in use
    chat.settings(max_new_tokens=8)
    assert chat.say("Go")
    expect(chat.error).to_have_count(0)


def test_each_answer_grows_while_it_is_written(chat: ChatPage) -> None:
    chat.page.evaluate(DRAW_AT_ONCE)  # a busy machine shows the page no frame between two words
    chat.settings(max_new_tokens=160)  # the worker sends at intervals: a few words would come together
    for text in ("Once", "Again"):
        chat.page.evaluate(SHOWN, "chat-turns")
        chat.say(text)
        lengths = [len(shown) for shown in chat.page.evaluate("shown")]
        assert len({*lengths}) > 1, text
    chat.settings(max_new_tokens=8)
    chat.page.evaluate(DRAW_LATER)


def test_drafts_of_a_model_that_writes_all_places_at_once(chat: ChatPage, tmp_path: Path) -> None:
    folder_of("llada", tmp_path)
    (files := sorted(tmp_path.iterdir())).reverse()
    chat.use(files).settings(temperature=0, max_new_tokens=24)
    chat.page.evaluate(DRAW_AT_ONCE)
    chat.page.evaluate(SHOWN, "chat-turns")
    chat.say("the cat")
    drafts = [text for text in chat.page.evaluate("shown") if "▒" in text]
    assert len(drafts) > 1 and drafts[0].count("▒") != drafts[-1].count("▒")
    assert "▒" not in chat.page.locator("#chat-turns").inner_text()

    chat.page.evaluate("location.hash = '#story'")
    story = StoryPage(chat.page).pick(files)
    expect(chat.page.locator("#model-name")).to_have_text("model.safetensors")
    story.settings(temperature=0, top_p=0.9, max_new_tokens=24)
    chat.page.evaluate(SHOWN, "story-draft")
    text = story.write("the cat")
    drafts = [text for text in chat.page.evaluate("shown") if "▒" in text]
    assert len(drafts) > 1 and drafts[0].count("▒") != drafts[-1].count("▒")
    chat.page.evaluate(DRAW_LATER)
    assert len(text) > len("the cat") and chat.page.locator("#story-text").inner_text().strip() == text.strip()


def test_a_gguf_file_answers_and_can_be_kept(chat: ChatPage, files: list[Path], tmp_path: Path) -> None:
    """A model of this visit is copied to the browser's storage, and is there after a reload."""
    gguf = tmp_path / "small.gguf"

    async def write() -> None:
        events = [event async for event in tasks.quantize(str(files[0].parent), gguf, "q8_0")]
        assert events[-1].type == "done", events[-1]

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, write()).result()
    chat.page.evaluate(HOLD_FILES)
    chat.pick_model([gguf])
    reading = chat.page.locator("#model-dialog .row-progress", has_text="Reading small.gguf")
    expect(reading).to_be_in_viewport()
    chat.page.evaluate("letIn()")
    expect(chat.page.locator("#chat-model .model-name")).to_have_text("small.gguf")
    expect(chat.page.locator("dialog[open]")).to_have_count(0)
    expect(reading).to_have_count(0)
    chat.settings(**GREEDY)
    chat.page.locator("#chat-system").fill("")  # new conversations begin with that of the last one
    first = chat.say("Hello, fox")
    assert first == native_answer([gguf], [{"role": "user", "content": "Hello, fox"}])
    expect(chat.template).to_be_hidden()
    chat.page.get_by_role("button", name="Keep it here").click()
    row = chat.model_row("small.gguf")
    row.get_by_role("button", name="Keep here").click()
    expect(row).to_contain_text("kept")
    chat.close_dialog()
    asked: list[str] = []
    chat.page.on("request", lambda request: asked.append(request.url))
    chat.page.reload()
    chat.wait_ready()
    chat.field.wait_for()
    chat.page.evaluate("pyappPage.chat.ready")
    expect(chat.page.locator("#chat-model .model-name")).to_have_text("small.gguf")
    chat.page.evaluate("pyappPage.chat.begin()")
    chat.settings(**GREEDY)
    assert chat.say("Hello, fox") == first
    assert not [
        url for url in asked if "models/" in url and ".bin" in url
    ]  # the story model is not fetched for nothing
    chat.page.evaluate("pyappPage.app.engine.call('storage.clear').then(() => pyappPage.app.afterStorageChange())")
    expect(chat.page.locator("#chat-model .model-name")).to_have_text("Little stories")


def test_nothing_is_lost_on_reload(chat: ChatPage, files: list[Path]) -> None:
    chat.page.locator("#chat-system").fill("Be brief.")
    chat.use(files).settings(temperature=0, max_new_tokens=480)
    chat.field.fill("A long answer, please")
    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path[1]?.text.length > 20")
    chat.field.fill("what I was about to ask")
    written = chat.texts()[1]
    chat.page.reload()
    chat.wait_ready()
    chat.field.wait_for()
    chat.page.evaluate("pyappPage.chat.ready")
    assert chat.texts()[0] == "A long answer, please"
    expect(chat.page.locator("#chat-system")).to_have_value("Be brief.")
    expect(chat.field).to_have_value("what I was about to ask")
    assert chat.texts()[1:] == [] or chat.texts()[1].startswith(written[:20])
    chat.field.fill("")


def test_what_is_typed_while_an_answer_ends(chat: ChatPage, files: list[Path]) -> None:
    """The message that is edited keeps its field and the cursor; each tab has its own draft."""
    page = chat.page
    chat.use(files).settings(temperature=0, max_new_tokens=480)
    chat.field.fill("First")
    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path.length === 2")
    chat.turn(0).get_by_role("button", name="Edit").click()
    page.keyboard.press("End")
    page.keyboard.type(" and")
    page.evaluate("pyappPage.chat.button.interrupt().then(() => pyappPage.chat.over)")
    page.keyboard.type(" more")
    expect(chat.turn(0).locator("textarea")).to_have_value("First and more")
    page.keyboard.press("Escape")
    expect(chat.turn(0).get_by_role("button", name="Edit")).to_be_focused()
    chat.field.fill("mine")
    page.evaluate("localStorage.setItem('pyapp.chat-drafts', JSON.stringify({ draft: 'of another tab' }))")
    page.reload()
    chat.wait_ready()
    chat.field.wait_for()
    page.evaluate("pyappPage.chat.ready")
    expect(chat.field).to_have_value("mine")
    chat.field.fill("")


def test_messages_without_an_answer(chat: ChatPage, files: list[Path], tmp_path: Path) -> None:
    """They reach the model with the next one, as templates want it, and are in the file that comes back."""
    page = chat.page
    chat.use(files).settings(**GREEDY)
    page.evaluate("pyappPage.chat.conversation.add('user', 'Hello')")
    answer = chat.say("fox")
    assert answer == native_answer(files, [{"role": "user", "content": "Hello\n\nfox"}])
    assert page.evaluate("pyappPage.chat.conversation.path.map(({ role }) => role)") == ["user", "user", "assistant"]
    page.evaluate("pyappPage.chat.begin()")
    chat.say("Another one")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    saved = tmp_path / "all.json"
    download.value.save_as(saved)
    rows, note = page.locator(".history-row"), page.locator("#history-conversation .history-note")
    count = rows.count()
    for number in (1, 2):
        rows.first.get_by_role("button", name="Delete").dblclick()  # deletes one
        expect(rows).to_have_count(count - number)
    for title, left in (("Hello", count - 1), ("Another one", count)):
        expect(note).to_contain_text(f"“{title}” is deleted.")
        note.get_by_role("button", name="Undo").click()
        expect(rows).to_have_count(left)
    expect(rows.filter(has_text="Another one").locator(".history-open")).to_be_focused()
    page.evaluate(
        "(id) => pyappPage.chat.store.remove(id)", page.evaluate("pyappPage.chat.store.list().then((all) => all[1].id)")
    )
    page.locator("#history-conversation .history-import").set_input_files(saved)
    expect(note).to_contain_text("1 imported")


def test_an_answer_of_an_engine_that_died(chat: ChatPage, files: list[Path]) -> None:
    """What happened stays to be read when the engine has restarted, with a button that asks again."""
    chat.use(files).settings(**GREEDY)
    chat.page.evaluate("pyappPage.app.engine.worker.terminate()")
    chat.field.fill("Hello, fox")
    chat.field.press("Enter")
    chat.until("pyappPage.chat.button.running")
    chat.page.get_by_role("button", name="Stop", exact=True).click()
    expect(chat.error).to_contain_text("restarted")
    chat.wait_ready()
    chat.until("pyappPage.chat.loading === null")  # the model is loaded anew
    expect(chat.error).to_contain_text("restarted")
    chat.error.get_by_role("button", name="Try again").click()
    chat.until("pyappPage.chat.conversation.path.length === 2")
    assert chat.answered()
    expect(chat.error).to_have_count(0)


def test_export_delete_undo_import(chat: ChatPage, files: list[Path], tmp_path: Path) -> None:
    page = chat.page
    chat.use(files).settings(**GREEDY)
    chat.say("Keep this one")
    record = page.evaluate("pyappPage.chat.conversation.toRecord()")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    saved = tmp_path / "conversations.json"
    download.value.save_as(saved)
    assert record["turns"] in [one["turns"] for one in json.loads(saved.read_text())["conversations"]]
    rows = page.locator(".history-row", has_text="Keep this one")
    rows.get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(rows).to_have_count(1)
    expect(rows.locator("[aria-current]")).to_have_count(0)  # the view shows a new one
    rows.get_by_role("button", name="Delete").click()
    expect(rows).to_have_count(0)
    page.locator("#history-conversation .history-import").set_input_files(saved)
    expect(rows).to_have_count(1)
    rows.locator(".history-open").click()
    expect(chat.turns).to_have_count(2)
    assert page.evaluate("pyappPage.chat.conversation.toRecord().turns") == record["turns"]
    page.locator("#history-conversation .history-import").set_input_files(saved)
    expect(page.locator("#history-conversation .history-note")).to_contain_text("were here already")
    assert page.evaluate(TWO_TABS) == [True, 2]
    head = {"format": "pyapp.conversations", "version": 1}
    stranger = {**head, "conversations": [{**record, "turns": [{"id": "a", "parent": "b"}]}]}
    for text, says in (("no JSON", "not JSON"), ("{}", "no conversations"), (json.dumps(stranger), "Turn 1")):
        saved.write_text(text)
        page.locator("#history-conversation .history-import").set_input_files(saved)
        expect(page.locator("#history-conversation [role=alert]")).to_contain_text(says)
    expect(chat.turns).to_have_count(2)
    # A conversation of an earlier version of the page is moved into the history.
    page.evaluate("(id) => pyappPage.chat.store.remove(id)", record["id"])
    page.evaluate(EARLIER, record | {"title": "From before", "updated": record["updated"] + 10**9})
    page.evaluate("sessionStorage.removeItem('pyapp.chat-shown')")  # as a new tab
    page.reload()
    chat.wait_ready()
    page.evaluate("pyappPage.chat.ready")
    assert page.evaluate("pyappPage.chat.conversation.toRecord().turns") == record["turns"]
    expect(page.locator(".history-open[aria-current]")).to_contain_text("From before")
    assert page.evaluate(EARLIER_LEFT) == 0


def imported(chat: ChatPage, answer: str) -> None:
    """Shows a conversation with this answer."""
    turns = [
        {"id": "a", "parent": None, "role": "user", "text": "Show me <b>everything</b>", "created": 1},
        {"id": "b", "parent": "a", "role": "assistant", "text": answer, "thoughts": "First, *look*.", "created": 2,
         "model": "A model", "reason": "stop",
         "figures": {"tokens": 120, "speed": 41.5, "context": 4096, "used": 160}},
    ]  # fmt: skip
    one = {"id": "fixed", "title": "Markdown", "system": "", "created": 1, "updated": 2, "leaf": "b", "turns": turns}
    text = json.dumps({"format": "pyapp.conversations", "version": 1, "conversations": [one]})
    chat.page.evaluate("location.hash = '#story'")
    chat.page.evaluate("(text) => pyappPage.router.take([new File([text], 'one.json')])", text)  # dropped on any view
    expect(chat.page.locator("#history-conversation .history-note")).to_contain_text("1 imported")
    chat.page.locator("#history-conversation .history-open", has_text="Markdown").first.click()
    expect(chat.turns).to_have_count(2)


def test_a_text_that_is_dropped_becomes_a_part_of_the_message(chat: ChatPage) -> None:
    chat.field.fill("Read this: ")
    drop = "(data) => pyappPage.router.take([new File([new Uint8Array(data)], 'zoe.txt')])"
    chat.page.evaluate(drop, list("Zo\u00eb ran.\n".encode("windows-1252")))
    expect(chat.field).to_have_value("Read this: Zo\u00eb ran.")
    expect(chat.page.locator("#chat-note")).to_contain_text("read as Western European (Windows-1252)")
    chat.field.press("Control+z")
    expect(chat.field).to_have_value("Read this: ")
    chat.page.evaluate(drop, [])
    expect(chat.page.locator("#view-error [role=alert]")).to_contain_text("There is no text in this file.")
    chat.page.locator("#view-error").get_by_role("button", name="Dismiss").click()


# A paragraph of Arabic with code, a list, a block of code.
ARABIC = "\u0645\u0631\u062d\u0628\u0627 `f(1);`\n\n- \u0648\u0627\u062d\u062f\n\n```\nf(1);\n```\n"


def test_markdown_is_shown_and_runs_nothing(chat: ChatPage, browser: BrowserContext) -> None:
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    imported(chat, HOSTILE)
    answer = chat.turn(1)
    assert chat.turn(0).locator(".turn-text").inner_text() == "Show me <b>everything</b>"
    expect(answer.locator("h4")).to_have_text("Title")
    expect(answer.locator("table td").first).to_have_text("1")
    expect(answer.locator("img, script, [onerror], [style]")).to_have_count(0)
    expect(answer).to_contain_text("<script>")
    assert chat.page.evaluate("globalThis.hacked") is None
    links = answer.locator("a[href]").evaluate_all("(all) => all.map((a) => [a.href, a.rel])")
    expect(answer.locator("li input[type=checkbox]")).to_be_checked()
    assert [link for link, _ in links] == ["https://example.org/a", "https://example.org/track.png"]
    assert all("noopener" in rel for _, rel in links)
    expect(answer.locator(".thoughts .markdown")).to_have_text("First, look.")
    answer.get_by_role("button", name="Copy the python code").click()
    expect(answer.get_by_role("button", name="Copy the python code")).to_have_text("Copied")
    assert chat.page.evaluate("navigator.clipboard.readText()") == 'print("fox")\n'
    # In a text from right to left code stays as it is, and the marks of lists have room on the right.
    chat.page.evaluate(
        "(text) => { const { chat } = pyappPage; chat.conversation.path[1].text = text; chat.render() }",
        ARABIC,
    )
    shown = answer.locator(".markdown").last
    expect(shown.locator("p").first).to_have_css("direction", "rtl")
    assert shown.locator("code").count() == 2
    for code in shown.locator("code").all():
        expect(code).to_have_css("direction", "ltr")
    expect(shown.locator("ul")).to_have_css("padding-left", "0px")
