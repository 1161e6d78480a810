"""The user's files: valid ones work; wrong ones give an error, and the page continues to work."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from e2e.model_files import write_large, write_model, write_pair, write_tokenizer
from e2e.page import StoryPage
from scripts.serve import SiteServer
from tests.text.embedder import write_embedder

Broken = Callable[[Path], list[Path]]


def text_file(folder: Path) -> list[Path]:
    (folder / "model.bin").write_text("Dear diary, today I dropped the wrong file.\n" * 50)
    return [folder / "model.bin", write_tokenizer(folder / "tokenizer.bin")]


def truncated(folder: Path) -> list[Path]:
    model, tokenizer = write_pair(folder)
    model.write_bytes(model.read_bytes()[:-1000])
    return [model, tokenizer]


def large_and_empty(folder: Path) -> list[Path]:
    """Of large files the header is read before the model is loaded."""
    model, tokenizer = write_pair(folder)
    model.write_bytes(bytes(9 << 20))
    return [model, tokenizer]


def absurd_header(folder: Path) -> list[Path]:
    model, tokenizer = write_pair(folder)
    data = bytearray(model.read_bytes())
    struct.pack_into("<i", data, 8, 1 << 30)  # dim
    model.write_bytes(data)
    return [model, tokenizer]


def other_tokenizer(folder: Path) -> list[Path]:
    return [write_model(folder / "model.bin"), write_tokenizer(folder / "tokenizer.bin", vocabulary=900)]


def damaged_tokenizer(folder: Path) -> list[Path]:
    model, tokenizer = write_pair(folder)
    tokenizer.write_bytes(tokenizer.read_bytes()[:100])
    return [model, tokenizer]


def nan_weights(folder: Path) -> list[Path]:
    return write_pair(folder, nan=True)


def not_json(folder: Path) -> list[Path]:
    (folder / "tokenizer.json").write_bytes(b"\xff\xfe{ not json")
    return [write_model(folder / "model.bin"), folder / "tokenizer.json"]


REFUSED_WHEN_READ = [
    text_file,
    truncated,
    large_and_empty,
    absurd_header,
    other_tokenizer,
    damaged_tokenizer,
    nan_weights,
    not_json,
]


def works_again(story: StoryPage) -> None:
    """The embedded model is still in use, and writes in the same worker."""
    story.close_dialog()
    expect(story.page.locator("#model-name")).to_have_text("Little stories")
    expect(story.error).to_have_count(0)
    story.settings(max_new_tokens=16)
    story.write("One day")
    assert len(story.ids()) > 0


def test_a_model_that_loads_for_long(story: StoryPage, tmp_path: Path) -> None:
    """It is larger than the page's memory, says so, tells how far it is, and can be cancelled."""
    story.pick(write_large(tmp_path))
    row = story.model_row("model.safetensors")
    expect(row).to_contain_text("about 2.93 GB of memory: more than the ")  # 8-bit: half of what float16 takes
    expect(row).to_contain_text("MB of 4.83 GB")
    row.get_by_role("button", name="Cancel").click()
    expect(row).to_have_count(0)
    expect(story.page.locator("#pick-files")).to_be_focused()
    expect(story.page.locator("#model-error [role=alert]")).to_have_count(0)
    story.close_dialog()
    expect(story.page.locator("#model-name")).to_have_text("Little stories")
    story.settings(temperature=0, max_new_tokens=8)
    assert story.write("The fox")


def test_own_model_writes(story: StoryPage, tmp_path: Path) -> None:
    files = write_pair(tmp_path)
    story.pick(files)
    expect(story.page.locator("#model-name")).to_have_text("model.bin")
    story.settings(temperature=0, max_new_tokens=24)
    story.write("the little fox")
    assert len(story.ids()) == 24
    assert story.page.locator("#max_new_tokens").get_attribute("max") == "256"  # the model's context
    before = story.ids()
    story.page.evaluate("pyappPage.app.restart()")  # an engine that is started anew gets the files again
    story.wait_ready()
    expect(story.page.locator("#model-name")).to_have_text("model.bin")
    story.write("the little fox")
    assert story.ids() == before
    for file in files:
        file.unlink()
    story.page.evaluate("pyappPage.app.restart()")
    story.wait_ready()
    expect(story.error).to_contain_text("This file could not be read.")
    expect(story.error).to_contain_text("Choose it again.")
    story.page.evaluate("pyappPage.app.choices.generate.chooseFirst()")
    works_again(story)


# A list of models arrives while a model is being loaded, which fails.
LIST_BEFORE_ERROR = """() => {
  const { engine, choices } = pyappPage.app, choice = choices.generate, { call } = engine;
  engine.call = async (name, ...more) => {
    if (name !== "load") return call.call(engine, name, ...more);
    engine.call = call;
    choice.offer(choice.models.map((model) => ({ ...model })));
    throw { type: "error", what: "The file is gone." };
  };
  choice.choose(choice.model);
}"""


def test_an_error_of_loading_is_shown_though_the_list_is_new(story: StoryPage) -> None:
    story.page.wait_for_function("() => pyappPage.story.loading === null")
    story.page.evaluate(LIST_BEFORE_ERROR)
    expect(story.error).to_contain_text("The file is gone.")
    story.page.evaluate("pyappPage.app.choices.generate.chooseFirst()")
    works_again(story)


def test_wrong_files_are_refused_in_words(story: StoryPage, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One after the other, in the same worker."""
    story.page.evaluate("globalThis.worker = pyappPage.app.engine.worker, 1")
    error = story.page.locator("#model-error [role=alert]")
    for broken in REFUSED_WHEN_READ:
        with subtests.test(broken.__name__):
            (folder := tmp_path / broken.__name__).mkdir()
            story.pick(broken(folder))
            expect(error).to_be_visible()
            message = error.inner_text()
            assert "unexpected" not in message and "Traceback" not in message and "Error:" not in message
            assert any(name in message for name in ("model.bin", "tokenizer")), message
            story.close_dialog()
            expect(story.page.locator("#model-name")).to_have_text("Little stories")
            expect(story.error).to_have_count(0)
    works_again(story)
    assert story.page.evaluate("worker === pyappPage.app.engine.worker"), "the worker was lost"


INCOMPLETE = [
    (["notes.txt", "tokenizer.bin"], "not a model file"),
    (["model.bin"], "its tokenizer (tokenizer.bin)"),
    (["model.safetensors"], "the folder of a model"),
    (["tokenizer.bin"], "no checkpoint"),
    (["a.bin", "b.bin", "tokenizer.bin"], "2 files"),
    (["empty.bin", "tokenizer.bin"], "empty"),
    (["empty.safetensors"], "This file is empty."),
    (["net.onnx"], "an ONNX model, which no view loads"),
]


def test_incomplete_choices_are_explained(story: StoryPage, tmp_path: Path, subtests: pytest.Subtests) -> None:
    message = story.page.locator("#model-error [role=alert]")
    for names, says in INCOMPLETE:
        with subtests.test(says):
            for name in names:
                (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"some bytes")
            story.pick([tmp_path / name for name in names])
            expect(message).to_contain_text(says)
            story.close_dialog()
    write_embedder(tmp_path / "encoder")
    story.open_models()
    story.page.locator("#pick-folder").set_input_files(tmp_path / "encoder")
    expect(message).to_contain_text("It is a model for Search: choose it there.")
    story.close_dialog()
    works_again(story)


# Drops or pastes files of these names, types and contents (base64); "dragenter" only shows what would happen.
GIVE = """([how, files]) => {
  const transfer = new DataTransfer();
  for (const [name, type, data] of files)
    transfer.items.add(new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, { type }));
  const usual = { bubbles: true, cancelable: true };
  if (how === "paste") document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: transfer, ...usual }));
  else for (const type of how === "drop" ? ["dragenter", "dragover", "drop"] : [how])
    document.body.dispatchEvent(new DragEvent(type, { dataTransfer: transfer, ...usual }));
}"""
# What another app shares with the installed page arrives as this request.
SHARE = """async (name) => {
  await navigator.serviceWorker.ready;
  const form = new FormData();
  form.append("files", new File(["Long ago, in a shared text,"], name, { type: "text/plain" }));
  const { url, redirected } = await fetch("share", { method: "POST", body: form });
  return redirected && url;
}"""


# What the browser gives an installed page whose file handlers (app.webmanifest) were asked to open a file.
LAUNCH_QUEUE = """
  const launchQueue = { setConsumer: (consumer) => {
    globalThis.opened = (name, text) => consumer({ files: [{ getFile: async () => new File([text], name) }] });
  } };
  Object.defineProperty(globalThis, "launchQueue", { value: launchQueue });
"""


def gguf_of(architecture: str) -> bytes:
    """The header of a GGUF file whose third value is its architecture, and nothing else."""

    def text(value: str) -> bytes:
        return len(value).to_bytes(8, "little") + value.encode()

    def number(value: int) -> bytes:
        return value.to_bytes(4, "little")

    values = [
        text("general.alignment") + number(4) + number(32),
        text("general.tags") + number(9) + number(8) + (2).to_bytes(8, "little") + text("a") + text("b"),
        text("general.architecture") + number(8) + text(architecture),
    ]
    counts = (0).to_bytes(8, "little") + len(values).to_bytes(8, "little")
    return b"GGUF" + number(3) + counts + b"".join(values)


def test_files_go_to_the_view_that_uses_them(story: StoryPage, dist: Path) -> None:
    page = story.page
    refused = page.locator("#view-error [role=alert]")
    overlay = page.locator("#drop-overlay")

    def give(how: str, *files: tuple[str, str, bytes]) -> None:
        page.evaluate(GIVE, [how, [(name, kind, base64.b64encode(data).decode()) for name, kind, data in files]])

    give("drop", ("models.7z", "", b"no"))
    expect(refused).to_contain_text("This is an archive, which the page cannot use.")
    expect(refused).to_contain_text("models.7z")
    expect(overlay).to_be_hidden()
    give("drop", ("letter.docx", "", b"no"))
    expect(refused).to_contain_text("This is a document")
    give("drop", ("letter - Shortcut.lnk", "", b"no"))
    expect(refused).to_contain_text("This is a shortcut")
    give("drop", ("game.xyz", "", b"no"))
    expect(refused).to_contain_text("cannot use this kind of file")
    give("drop", ("fox.txt", "text/plain", b"\0\xff"))
    expect(refused).to_contain_text("This file is not a text file.")
    give("drop", ("nothing.txt", "text/plain", b" \n"))
    expect(refused).to_contain_text("There is no text in this file.")

    give("dragenter", ("", "text/plain", b"x"))
    expect(overlay).to_have_text("Drop to begin a story with this text")
    give("drop", ("fox.txt", "text/plain", b"Long ago there was a fox\n"))
    expect(page.locator("#prompt")).to_have_value("Long ago there was a fox")
    expect(refused).to_have_count(0)
    give("drop", ("FABLE", "", b"A fox and a crow"))  # a text whose name has no ending
    expect(page.locator("#prompt")).to_have_value("A fox and a crow")
    for encoding in ("utf-8-sig", "utf-16"):
        give("drop", ("zoe.txt", "text/plain", f"Zo\u00eb, {encoding}".encode(encoding)))
        expect(page.locator("#prompt")).to_have_value(f"Zo\u00eb, {encoding}")
    note = page.locator(".prompt-note")
    expect(note).to_be_empty()
    give("drop", ("zoe.txt", "text/plain", "\u201eZo\u00eb\u201c".encode("windows-1252")))
    expect(page.locator("#prompt")).to_have_value("\u201eZo\u00eb\u201c")
    expect(note).to_contain_text("zoe.txt is not in UTF-8.")
    note.locator("select").select_option("windows-1251")
    expect(page.locator("#prompt")).to_have_value("\u201eZo\u043b\u201c")
    expect(note.locator("select")).to_be_focused()
    page.locator("#prompt").fill("Another")
    expect(note).to_be_empty()
    page.evaluate("localStorage.removeItem('pyapp.encoding')")

    clip = next((dist / "models" / "speech").rglob("*.wav")).read_bytes()
    page.locator("#open-storage").click()
    expect(page.locator("#storage-dialog")).to_be_visible()
    give("dragenter", ("", "audio/wav", b"x"))
    expect(overlay).to_have_text("Drop to transcribe this recording")
    give("drop", ("talk.wav", "audio/wav", clip), ("holiday.jpg", "image/jpeg", b"no"))
    page.wait_for_selector("#transcript-sheet[data-state=done]", timeout=60_000)
    expect(page.locator("dialog[open]")).to_have_count(0)  # what is heard is not below a dialog
    assert page.url.endswith("#transcribe") and page.evaluate("pyappPage.transcribe.sheet.transcript.text")
    expect(refused).to_contain_text("One file was left out")

    give("paste", ("tiny.gguf", "", gguf_of("llama")))  # on another view than its own
    expect(page.locator("#model-error [role=alert]")).to_contain_text("tiny.gguf", timeout=60_000)
    assert page.url.endswith("#chat")
    story.close_dialog()
    folder = [
        ("config.json", "", b'{"model_type": "whisper"}'),
        ("model.safetensors", "", b""),
        ("README.md", "", b"A model"),
    ]
    give("drop", *folder)
    expect(page.locator("#model-error [role=alert]")).to_contain_text("tokenizer.json is missing")
    assert page.url.endswith("#transcribe")
    story.close_dialog()

    give("dragenter", ("", "image/png", b"x"))
    expect(overlay).to_have_text("Drop to read the text in this picture")
    give("drop", ("holiday.jpg", "image/jpeg", b"no"))
    expect(page.locator("#read-error [role=alert]")).to_contain_text("holiday.jpg")
    assert page.url.endswith("#read")

    page.evaluate("location.hash = '#story'")
    address = page.evaluate(SHARE, "once upon.txt")  # without the hash, which a fetch does not tell
    page.goto("about:blank")
    page.add_init_script(LAUNCH_QUEUE)
    page.goto(f"{address}#shared")
    expect(page.locator("#prompt")).to_have_value("Long ago, in a shared text,")
    assert not page.url.endswith("#shared")
    story.wait_ready()
    page.evaluate("opened('once.md', 'Once, in a file that was opened,')")  # with the installed page
    expect(page.locator("#prompt")).to_have_value("Once, in a file that was opened,")


def test_a_field_takes_a_text_of_a_length(still: StoryPage, still_site: SiteServer) -> None:
    """What is too long is cut, by words that say so: browsers need seconds for each letter behind it."""
    page = still.page
    page.goto(still_site.url)
    for view, field in (("story", "#prompt"), ("translate", "#translate-text"), ("chat", "#chat-field")):
        page.goto(f"{still_site.url}#{view}")
        page.locator(field).select_text()
        page.keyboard.insert_text("the fox ran. " * 10_000)
        told = page.get_by_text("Of 130,000, the first 100,000 are here")
        expect(told).to_have_count(1)
        assert len(page.locator(field).input_value()) == 100_000
        page.keyboard.insert_text("more")
        expect(page.get_by_text("It is full.")).to_have_count(1)
        page.locator(field).fill("")


@pytest.mark.parametrize(
    "prompt", ["", "the fox ran. " * 8000, "\ud800 half a pair, \u0000 and \U0001f98a"], ids=["empty", "100 kB", "odd"]
)
def test_odd_prompts(story: StoryPage, prompt: str) -> None:
    story.page.evaluate("(text) => { document.getElementById('prompt').value = text }", prompt)
    story.settings(max_new_tokens=8)
    story.start()
    if len(prompt) > 10_000:
        expect(story.error).to_contain_text("too long")
        expect(story.error).to_contain_text("Shorten")
    else:
        story.wait_done()
    story.write("One day")
    assert 0 < len(story.ids()) <= 8
