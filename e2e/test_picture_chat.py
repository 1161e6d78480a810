"""Chat with pictures: how they are added, seen, shown, kept and exported; models that see none."""

from __future__ import annotations

import asyncio
import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, FilePayload, expect

from e2e.chat_page import ChatPage
from e2e.conftest import PHONE, WIDE, watched
from pyapp import tasks
from pyapp.formats.source import BytesSource, FileSource
from scripts.serve import SiteServer
from tests.models.projector_files import write_both
from tests.text.chat_model import write_chat_model
from tests.text.picture_chat_model import photo, write_picture_chat_model

GREEDY = {"temperature": 0, "top_p": 0.9, "max_new_tokens": 12}
# As a hand drops or pastes a file.
GIVE = """([kind, bytes, name]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(bytes)], name, { type: "image/png" }));
  const target = document.getElementById("chat-field");
  const pasted = new ClipboardEvent("paste", { clipboardData: data, bubbles: true });
  if (kind === "paste") return target.dispatchEvent(pasted);
  for (const type of ["dragenter", "dragover", "drop"]) {
    target.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
  }
}"""
# What the page says it does with a file of a type that is dragged over it.
DRAG = """(type) => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File(["a"], "a", { type }));
  const fire = (event) => document.body.dispatchEvent(new DragEvent(event, { dataTransfer, bubbles: true }));
  fire("dragenter");
  const said = document.getElementById("drop-overlay").innerText;
  fire("dragleave");
  return said;
}"""
# No file can be stored any more, as where the disk is full.
FULL = """() => {
  const { put } = IDBObjectStore.prototype;
  IDBObjectStore.prototype.put = function (value, ...rest) {
    if (value?.blob) throw new DOMException("full", "QuotaExceededError");
    return put.call(this, value, ...rest);
  };
  globalThis.roomAgain = () => void (IDBObjectStore.prototype.put = put);
}"""

# Stop is pressed when the model begins to look at a picture.
STOP_SEEING = """() => {
  const { chat } = pyappPage;
  const call = chat.engine.call;
  chat.engine.call = (name, params, options) => call.call(chat.engine, name, params, { ...options, onEvent: (event) => {
    options.onEvent?.(event);
    if (event.what !== "seeing") return;
    globalThis.seen ??= document.getElementById("chat-progress").textContent;
    chat.engine.call = call;
    chat.button.stop();
  } });
}"""


def png(height: int, width: int, seed: int = 0) -> bytes:
    file = io.BytesIO()
    Image.fromarray(photo(height, width, seed)).save(file, "PNG")
    return file.getvalue()


def given(name: str, data: bytes, kind: str = "image/png") -> FilePayload:
    return {"name": name, "mimeType": kind, "buffer": data}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A model of SmolVLM's architecture, with random weights."""
    return sorted(write_picture_chat_model(tmp_path_factory.mktemp("model"), "idefics3").iterdir())


def use(chat: ChatPage, files: list[Path], title: str = "model.safetensors") -> None:
    chat.use(files, title).settings(**GREEDY)
    expect(chat.page.locator("#chat-attach")).to_be_visible()


def native_answer(files: list[Path], messages: list[dict[str, Any]]) -> str:
    async def collect() -> str:
        sources = {path.name: FileSource(path) for path in files}
        events = [event async for event in tasks.chat(sources, messages, GREEDY, key=str(files[0]))]
        assert events[-1].type == "done", events[-1]
        return "".join(event.text for event in events if event.type == "token")

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, collect()).result()


def test_a_model_in_two_gguf_files_sees(chat: ChatPage, tmp_path: Path) -> None:
    _, folder = write_both(tmp_path, "idefics3")
    fox, files = png(30, 41), sorted(folder.iterdir())
    use(chat, files, "model.gguf")
    chat.page.locator("#chat-pictures").set_input_files([given("fox.png", fox)])
    question = [{"type": "image", "image": BytesSource(fox, "fox.png")}, {"type": "text", "text": "Is it an animal?"}]
    assert chat.say("Is it an animal?") == native_answer(files, [{"role": "user", "content": question}])


def test_a_picture_is_seen_kept_and_exported(chat: ChatPage, files: list[Path], tmp_path: Path) -> None:
    page, fox, cat = chat.page, png(30, 41), png(12, 12)
    use(chat, files)
    rows = page.locator("#chat-attachments > li")
    page.locator("#chat-pictures").set_input_files([given("fox.png", fox)])
    expect(rows.get_by_role("img", name="Picture: fox.png")).to_have_attribute("src", re.compile("^data:image/jpeg"))
    expect(page.locator("#chat-announcer")).to_contain_text("fox.png added. 1 picture.")
    page.evaluate(GIVE, ["drop", list(cat), "cat.png"])
    expect(rows).to_have_count(2)
    expect(page.locator("#drop-overlay")).to_be_hidden()
    page.evaluate(GIVE, ["paste", list(png(8, 8)), "third.png"])
    expect(rows).to_have_count(3)
    rows.nth(1).get_by_role("button", name="Remove cat.png").focus()
    page.keyboard.press("Enter")
    expect(rows.nth(1).get_by_role("button", name="Remove third.png")).to_be_focused()
    page.keyboard.press("Enter")
    expect(rows.first.get_by_role("button", name="Remove fox.png")).to_be_focused()
    assert page.evaluate("location.hash") == "#chat"  # not the Read view, which takes pictures elsewhere
    assert page.evaluate(DRAG, "image/png") == "Drop to show the model this picture"
    assert page.evaluate(DRAG, "application/pdf") == "Drop to read the text in this picture"

    first = chat.say("What is this?")
    question = [{"type": "image", "image": BytesSource(fox, "fox.png")}, {"type": "text", "text": "What is this?"}]
    asked: list[dict[str, Any]] = [{"role": "user", "content": question}]
    assert first == native_answer(files, asked)
    expect(rows).to_have_count(0)
    shown = chat.turn(0).get_by_role("img", name="Picture: fox.png")
    expect(shown).to_be_visible()
    second = chat.say("And then?")
    asked += [{"role": "assistant", "content": first}, {"role": "user", "content": "And then?"}]
    assert second == native_answer(files, asked)
    assert chat.last()["reused_tokens"] > 0

    page.locator("#chat-pictures").set_input_files([given("cat.png", cat)])
    expect(rows).to_have_count(1)
    chat.field.press("Enter")  # a picture is a message
    chat.until("pyappPage.chat.conversation.path.length === 6")
    chat.answered()
    chat.turn(0).get_by_role("button", name="Edit").click()
    chat.turn(0).locator("textarea").fill("What else?")
    chat.turn(0).get_by_role("button", name="Send").click()
    chat.until("pyappPage.chat.conversation.path.length === 2")
    edited = [{"role": "user", "content": [question[0], {"type": "text", "text": "What else?"}]}]
    assert chat.answered() == native_answer(files, edited)

    page.reload()
    chat.wait_ready()
    chat.field.wait_for()
    page.evaluate("pyappPage.chat.ready")
    expect(chat.turn(0).get_by_role("img", name="Picture: fox.png")).to_have_attribute("src", re.compile("^data:"))
    chat.turn(0).get_by_role("button", name="version before").click()
    expect(chat.turn(4).get_by_role("img", name="Picture: cat.png")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export all").click()
    saved = tmp_path / "conversations.json"
    download.value.save_as(saved)
    content = json.loads(saved.read_text())
    assert content["version"] == 2 and len(content["conversations"][0]["files"]) == 2
    expect(page.locator(".history-row", has_text="What is this?")).to_have_count(1)
    page.locator(".history-row", has_text="What is this?").get_by_role("button", name="Delete").click()
    page.evaluate("pyappPage.chat.card.panel.deleted.length = 0")
    page.locator("#history-conversation .history-import").set_input_files(saved)
    expect(page.locator("#history-conversation .history-note")).to_contain_text("1 imported")
    page.locator(".history-open", has_text="What is this?").click()
    expect(chat.turn(0).get_by_role("img", name="Picture: fox.png")).to_have_attribute("src", re.compile("^data:"))
    content["conversations"][0]["files"][0]["data"] = "data:image/png;base64,%%%"
    damaged = given("damaged.json", json.dumps(content).encode(), "application/json")
    page.locator("#history-conversation .history-import").set_input_files([damaged])
    expect(page.locator("#history-conversation [role=alert]")).to_contain_text("A picture in it is damaged.")


def test_what_is_refused(chat: ChatPage, files: list[Path], tmp_path: Path) -> None:
    page, rows = chat.page, chat.page.locator("#chat-attachments > li")
    field = page.locator("#chat-pictures")
    use(chat, files)
    wide = io.BytesIO()
    Image.new("1", (20_000, 10_000)).save(wide, "PNG")
    for file, says in (
        (given("fox.png", b"no picture"), "This picture cannot be decoded."),
        (given("empty.png", b""), "This file is empty."),
        (given("paper.pdf", b"%PDF-1.4", "application/pdf"), "This is a PDF, not a picture."),
        (given("wide.png", wide.getvalue()), "This picture has 20,000 × 10,000 pixels."),
    ):
        field.set_input_files([file])
        expect(chat.error).to_contain_text(says)
        expect(chat.error.locator(".error-where")).to_have_text(file["name"])
        expect(rows).to_have_count(0)
    field.set_input_files([given(f"{i}.png", png(8, 8 + i)) for i in range(9)])
    expect(chat.error).to_contain_text("A message takes at most 8 pictures.")
    expect(chat.error).to_contain_text("8.png")
    expect(rows).to_have_count(8)
    # More than there is room for; what was sent stays.
    chat.settings(context=128)
    chat.field.press("Enter")
    expect(chat.error).to_contain_text("there is room for")
    expect(chat.error).to_contain_text("“Context”")
    expect(chat.turn(0).get_by_role("img")).to_have_count(8)
    chat.settings(context=1024)
    page.evaluate("pyappPage.chat.begin()")
    # A large one is sent as a smaller copy, and the row says so.
    large = io.BytesIO()
    Image.new("RGB", (4000, 3000), "teal").save(large, "JPEG")
    field.set_input_files([given("large.jpg", large.getvalue(), "image/jpeg")])
    expect(rows).to_contain_text("4,000 × 3,000 pixels, sent as 2,364 × 1,773")

    # Stop while it is looked at; the message stays, and can be answered.
    page.evaluate(STOP_SEEING)
    chat.field.fill("What is it?")
    chat.field.press("Enter")
    chat.until("globalThis.seen !== undefined")
    page.evaluate("pyappPage.chat.over")
    assert "Looking at the pictures" in page.evaluate("seen")
    assert chat.texts() == ["What is it?"]
    expect(page.get_by_role("button", name="Answer this")).to_be_visible()

    # A model that sees none: no button; in an older conversation, it gets the names.
    field.set_input_files([given("cat.png", png(9, 9))])
    expect(rows).to_have_count(1)
    chat.use(write_chat_model(tmp_path)).settings(**GREEDY)
    expect(page.locator("#chat-attach")).to_be_hidden()
    assert page.evaluate(DRAG, "image/png") == "Drop to read the text in this picture"
    expect(page.locator("#chat-unseen")).to_contain_text("sees no pictures")
    chat.field.press("Enter")
    expect(chat.error).to_contain_text("This model sees no pictures.")
    rows.get_by_role("button", name="Remove cat.png").click()
    expect(page.locator("#chat-unseen")).to_be_hidden()
    page.get_by_role("button", name="Answer this").click()
    chat.until("pyappPage.chat.conversation.path.length === 2")
    expect(page.locator("#chat-note")).to_contain_text("it gets only their names")
    chat.answered()


def test_where_there_is_no_room_for_pictures(chat: ChatPage, files: list[Path]) -> None:
    page = chat.page
    use(chat, files)
    page.evaluate(FULL)
    page.locator("#chat-pictures").set_input_files([given("fox.png", png(20, 20))])
    expect(page.locator("#chat-attachments > li")).to_have_count(1)
    chat.field.fill("Full")
    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path.length === 2")
    chat.answered()
    expect(chat.error).to_contain_text("There is no room for the pictures of this conversation.")
    assert page.evaluate("pyappPage.chat.conversation.newFiles")  # before it is left, the browser asks
    page.evaluate("pyappPage.chat.begin()")
    page.locator(".history-open", has_text="Full").click()
    expect(chat.turn(0)).to_contain_text("fox.png: this picture is not kept")
    page.evaluate("roomAgain()")


def test_a_picture_opens_large(chat: ChatPage, files: list[Path]) -> None:
    page, dialog = chat.page, chat.page.locator(".picture-dialog")
    use(chat, files)
    wide = io.BytesIO()
    Image.new("RGB", (2000, 1500), "teal").save(wide, "JPEG")
    page.locator("#chat-pictures").set_input_files(
        [given("wide.jpg", wide.getvalue(), "image/jpeg"), given("fox.png", png(30, 41))]
    )
    expect(page.locator("#chat-attachments > li")).to_have_count(2)
    first = page.locator("#chat-attachments").get_by_role("button", name="Picture: wide.jpg")
    first.focus()
    page.keyboard.press("Enter")
    shown = dialog.get_by_role("img", name="Picture: wide.jpg")
    expect(shown).to_have_js_property("naturalWidth", 2000)  # not the small copy
    expect(dialog).to_contain_text("2,000 × 1,500 pixels")
    box = shown.bounding_box()
    assert box and 800 < box["width"] <= WIDE["width"] and box["y"] + box["height"] <= WIDE["height"]
    assert abs(box["width"] / box["height"] - 4 / 3) < 0.01
    dialog.get_by_role("button", name="Full size").click()
    assert shown.evaluate("(image) => image.clientWidth") == 2000
    shown.click()  # back again
    assert shown.evaluate("(image) => image.clientWidth") < WIDE["width"]
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(first).to_be_focused()

    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path.length === 2")
    sent = chat.turn(0).get_by_role("button", name="Picture: fox.png")
    sent.dblclick()  # its second half does not close what the first half opened
    expect(dialog.get_by_role("img", name="Picture: fox.png")).to_have_js_property("naturalWidth", 41)
    expect(dialog.get_by_role("button", name="Full size")).to_be_hidden()
    chat.until("pyappPage.chat.button.running === false")
    page.set_viewport_size(PHONE)
    dialog.locator(".picture-frame").click(position={"x": 10, "y": 10})
    expect(dialog).to_have_count(0)
    expect(sent).to_be_focused()
    page.set_viewport_size(WIDE)
    chat.answered()


def test_a_message_is_sent_once(chat: ChatPage, files: list[Path]) -> None:
    """Also when it is sent twice while the model is being loaded, and with what is typed meanwhile."""
    use(chat, files)
    chat.page.locator("#chat-pictures").set_input_files([given("fox.png", png(30, 41))])
    expect(chat.page.locator("#chat-attachments > li")).to_have_count(1)
    chat.field.fill("What is")
    chat.page.evaluate(
        "async () => { const { chat } = pyappPage; chat.seeing = null; const sent = [chat.send(), chat.send()];"
        " chat.field.value = 'What is it?'; await Promise.all(sent); await chat.over }"
    )
    turns = chat.page.evaluate("[...pyappPage.chat.conversation.turns.values()]")
    assert [turn["role"] for turn in turns] == ["user", "assistant"]
    assert turns[0]["text"] == "What is it?" and len(turns[0]["pictures"]) == 1
    expect(chat.field).to_have_value("")


def test_unsent_pictures_are_kept(chat: ChatPage, files: list[Path], browser: BrowserContext, site: SiteServer) -> None:
    page, rows = chat.page, chat.page.locator("#chat-attachments > li")

    def reload() -> None:
        page.reload()
        chat.wait_ready()
        page.evaluate("pyappPage.chat.ready")

    use(chat, files)
    page.locator("#chat-pictures").set_input_files([given("fox.png", png(30, 41)), given("cat.png", png(12, 12, 1))])
    expect(rows).to_have_count(2)
    chat.field.fill("What are these?")
    chat.until("!pyappPage.chat.pictureDraft.loses")
    assert page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")  # nothing is lost
    reload()
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_role("img", name="Picture: fox.png")).to_have_attribute("src", re.compile("^data:image"))
    expect(chat.field).to_have_value("What are these?")
    rows.first.get_by_role("button", name="Remove").click()
    with watched(browser.new_page(), ChatPage) as other:  # a new tab has them too; what it does changes nothing here
        other.open(site.url)
        expect(other.page.locator("#chat-attachments > li")).to_contain_text("cat.png")
        other.page.locator("#chat-attachments").get_by_role("button", name="Remove").click()
        other.until("!pyappPage.chat.pictureDraft.store.busy")
    reload()
    expect(rows).to_have_count(1)
    use(chat, files)  # its files are gone with the page
    chat.field.press("Enter")
    chat.until("pyappPage.chat.conversation.path.length === 2")
    chat.answered()
    reload()
    expect(chat.turn(0).get_by_role("img", name="Picture: cat.png")).to_be_visible()
    expect(rows).to_have_count(0)
    assert page.evaluate("pyappPage.chat.pictureDraft.store.list()") == []


def test_pictures_on_a_phone(chat: ChatPage, files: list[Path]) -> None:
    page = chat.page
    use(chat, files)
    page.set_viewport_size(PHONE)
    page.locator("#chat-pictures").set_input_files([given(f"picture {i}.png", png(24, 60, i)) for i in range(3)])
    expect(page.locator("#chat-attachments > li")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator("#chat-send")).to_be_in_viewport()
    page.set_viewport_size(WIDE)
