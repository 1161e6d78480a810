"""WCAG 2.2 AA by axe-core: all states of all views in one visit: light; dark at 400 %, with forced colours too.

What axe cannot see (keyboard, announcements) is tested with each view.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Callable

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page, ViewportSize, expect

from e2e.conftest import OUTPUT, ROOT, WIDE
from e2e.page import StoryPage
from pyapp.recipes.chooser import Chooser
from scripts.serve import SiteServer
from tests.audio.networks import speaker_network
from tests.vision.page_drawings import draw_table

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
ZOOMED: ViewportSize = {"width": 320, "height": 256}  # 1280 x 1024 at 400 %
BETWEEN = (390, 560, 640, 768, 900, 1024)  # pixels: phones, pages at 200 %, tablets; each state is seen at one of them
# `whole`: the page with its landmarks and headings; else the parts that are shown, by rules that look at one element.
RUN = """async ([whole, options]) => {
  const parts = [...document.querySelectorAll("body > :not(main), main > *")].filter((one) => one.checkVisibility());
  const more = { resultTypes: ["violations"], selectors: false, ...options };
  const { violations } = await axe.run(whole ? document : { include: parts }, more);
  const tell = (id) => ({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`;
  return violations.flatMap(({ id, nodes }) => nodes.map(tell(id)));
}"""
# Elements that reach beyond the page's width, but not those in a box that scrolls by itself, or those out of sight.
TOO_WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > innerWidth + 1)
    .map((one) => `wider than the page: ${one.outerHTML.slice(0, 120)}`)"""
# What is scrolled to stops below the top bar, however many lines that has.
COVERED = """async () => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  await frame().then(frame); // the page measures the bar
  const { offsetHeight: bar } = document.querySelector(".topbar");
  const top = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
  return top >= bar ? [] : [`the top bar has ${bar} pixels and covers what is scrolled to: ${top}`];
}"""
# As an extension or a style sheet changes their size.
LETTERS = "(size) => { document.documentElement.style.fontSize = size; }"
# Labels of moments, as a model finds them.
LABELLED = """() => {
  const { keeper, moments } = pyappPage.transcribe;
  const labels = [{ label: "Ada", start: 0, end: 1.5, score: 0.9 }];
  keeper.content.moments = { model: "labels", threshold: 0.5, labels };
  moments.card.open = true;
  moments.show();
}"""
CLOSE = """() => {
  document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
  document.querySelectorAll(".error-slot").forEach((slot) => slot.replaceChildren());
}"""


def shown(page: Page, view: str) -> None:
    page.evaluate(f"location.hash = '#{view}'")
    page.wait_for_function(f"() => pyappPage.{view} !== undefined && !document.getElementById('view-{view}').hidden")


def write(page: Page) -> None:
    page.evaluate("pyappPage.story.settings.inputs.get('max_new_tokens').set(64)")
    page.locator("#generate").click()
    page.wait_for_selector("#sheet[data-state=done]")


def transcribe(page: Page) -> None:
    shown(page, "transcribe")
    page.locator("#samples button").first.click()
    page.wait_for_selector("#transcript-sheet[data-state=done]", timeout=60_000)
    page.evaluate(LABELLED)


def tell_apart(page: Page) -> None:
    page.evaluate("document.querySelector('#speech-settings .more').open = true")
    page.locator("#speech-speakers").select_option("2")
    network = {"name": "voices.onnx", "mimeType": "application/octet-stream", "buffer": speaker_network()}
    page.locator("#pick-network").set_input_files(network)  # type: ignore[arg-type]
    page.locator("#transcribe").click()
    expect(page.locator("#transcript .speaker").first).to_be_visible()
    page.wait_for_selector("#transcript-sheet[data-state=done]", timeout=60_000)


def rename(page: Page) -> None:
    page.locator("#speech-speakers").select_option("")
    page.evaluate("document.querySelector('#speech-settings .more').open = false")
    page.locator("#transcript .speaker").first.click()
    expect(page.locator("#transcript .speaker-field")).to_be_focused()


def settings(page: Page) -> None:
    page.evaluate("document.querySelectorAll('#view-story details').forEach((details) => (details.open = true))")
    page.locator("#max_new_tokens").fill("99999")
    page.locator("#max_new_tokens").blur()


def refuse(page: Page) -> None:
    page.evaluate("pyappPage.router.take([new File(['no'], 'holiday.zip')])")
    expect(page.locator("#view-error [role=alert]")).to_be_visible()


def list_models(page: Page) -> None:
    page.locator("#choose-model").click()
    page.wait_for_selector("#model-dialog[open] .model-row")


def list_storage(page: Page) -> None:
    page.locator("#open-storage").click()
    expect(page.locator("#storage-summary")).to_contain_text("stores")


def lab(page: Page) -> None:
    shown(page, "lab")
    page.evaluate("pyappPage.lab.ready")
    cells = [
        "from pyapp import lab\nlab.plot([3, 1, 2], title='Curves', x_label='step')\n[{'a': 1}]",
        "lab.drawing(8)",
        "open('a.txt', 'w').write('Once')\nlab.open_in('story', 'a.txt')",
        "1 / 0",
    ]
    notebook = [
        {"kind": "text", "source": "# Title\nSome *text* and `code`"},
        *({"kind": "code", "source": source} for source in cells),
    ]
    page.evaluate(
        "async (cells) => { await pyappPage.lab.open({ title: 'Test', cells }); await pyappPage.lab.runAll() }",
        notebook,
    )
    expect(page.locator(".output-error")).to_contain_text("ZeroDivisionError")
    page.evaluate("pyappPage.lab.addFiles([new File(['1'], 'numbers.csv')])")
    page.locator(".curves canvas").scroll_into_view_if_needed()


# A conversation with all that Markdown has, and a search with a passage found.
TALK = r"""async () => {
  const { chat } = pyappPage;
  await chat.ready;
  const { id } = chat.conversation.add("user", "Show me <b>everything</b>", null);
  const answer = "# Title\n\nSome *emphasis*, `code`, [a link](https://example.org/).\n\n| a | b |\n| - | - |\n"
    + "| 1 | 2 |\n\n- [x] done\n\n```python\nprint('fox')\n```\n";
  Object.assign(chat.conversation.add("assistant", answer, id), {
    thoughts: "First, *look*.", model: "A model", reason: "stop",
    figures: { tokens: 120, speed: 41.5, context: 4096, used: 160 },
  });
  chat.render();
  await chat.save();
  await chat.card.refresh(chat.conversation.id);
}"""
FOUND = """async () => {
  const { search } = pyappPage;
  await search.ready;
  const name = `${"animals".repeat(20)}.txt`;
  const texts = [{ name, text: "The fox ran. The cat slept." }]; // the note says: in part
  search.collection.add(texts);
  search.collection.extend(texts,
    [{ text: 0, start: 0, end: 12, embedding: "AACAPw==" }, { text: 0, start: 13, end: 27, embedding: "AAAAPw==" }],
    { title: "A model", probe: "AACAPw==" });
  const { entry, content, files } = search.collection;
  await search.store.put(entry, content, { files });
  await search.open(await search.store.read(entry.id));
  const found = search.collection.ranked(new Float32Array([1]));
  search.results.show(search.collection, found.map((one) => ({ ...one, best: { start: 0, end: 7 } })));
}"""


def talk(page: Page) -> None:
    shown(page, "chat")
    page.evaluate(TALK)
    expect(page.locator("#history-conversation .history-row")).not_to_have_count(0)


def refuse_setting(page: Page) -> None:
    """A message that is being edited, open settings, and an error."""
    page.locator("#chat-turns .turn").first.get_by_role("button", name="Edit").click()
    page.evaluate("document.querySelectorAll('#view-chat details').forEach((details) => (details.open = true))")
    page.evaluate("pyappPage.chat.settings.inputs.get('context').number.value = '99999'; 1")
    page.locator("#chat-field").fill("Hello")
    page.locator("#chat-field").press("Enter")
    expect(page.locator("#chat-error [role=alert]")).to_contain_text("“Context” must be")


# Messages with pictures, one of which is not kept, and two for the next one; as with a model that sees them.
PICTURES = """async () => {
  const { chat } = pyappPage;
  chat.seeing = { model: chat.choice.model.id, pictures: true };
  const canvas = new OffscreenCanvas(3000, 2000);
  canvas.getContext("2d").fillRect(0, 0, 300, 200);
  const file = new File([await canvas.convertToBlob()], "a picture with a long name.png", { type: "image/png" });
  await chat.attachments.add([file, file]);
  const [{ picture, blob }] = chat.attachments.all;
  chat.conversation.addFile(picture.file, blob);
  const { id } = chat.conversation.add("user", "", null, [picture, { ...picture, file: "gone", name: "gone.png" }]);
  chat.conversation.add("assistant", "A black corner.", id);
  chat.render();
  await chat.save();
}"""


def show_pictures(page: Page) -> None:
    page.evaluate(PICTURES)
    expect(page.locator("#chat-attachments > li")).to_have_count(2)
    expect(page.locator("#chat-turns img")).to_have_attribute("src", re.compile("^data:"))


def enlarge(page: Page) -> None:
    page.locator("#chat-attachments .picture-button").first.click()
    expect(page.locator(".picture-dialog img")).to_have_js_property("complete", True)
    page.get_by_role("button", name="Full size").click()


def find(page: Page) -> None:
    shown(page, "search")
    page.evaluate(FOUND)
    expect(page.locator("#search-list .result")).to_have_count(2)
    expect(page.locator("#search-note")).to_contain_text("only in part")


def compare(page: Page) -> None:
    """Everything open, and the error that there is no model."""
    page.evaluate("document.querySelectorAll('#view-search details').forEach((details) => (details.open = true))")
    page.locator("#compare-one").fill("One text")
    page.locator("#compare-two").fill("Another")
    page.locator("#compare").click()
    expect(page.locator("#search-error [role=alert]")).to_contain_text("no model")


# What a model with many languages could have written, and had to leave out.
TRANSLATED = """async () => {
  const { translate } = pyappPage;
  await translate.ready;
  document.querySelectorAll('#view-translate details').forEach((details) => (details.open = true));
  const option = (code) => new Option(new Intl.DisplayNames(['en'], { type: 'language' }).of(code), code);
  for (const name of ['from', 'to']) document.getElementById(`translate-${name}`).append(...['de', 'pt-BR', 'zh-Hans'].map(option));
  document.getElementById('translate-languages').hidden = false;
  document.getElementById('translate-note').textContent = '1 of 2 parts are longer than the 512 tokens that this model reads: their ends were left out.';
  const content = { source: 'Good morning. How are you?', parts: [{ start: 0, end: 13, text: 'Guten Morgen.' }, { start: 14, end: 26, text: 'Wie geht es?' }], reason: 'cancelled', model: 'A model', language: 'de' };
  await translate.open({ entry: translate.store.begin('Good morning'), content });
}"""  # noqa: E501


def translate(page: Page) -> None:
    """A text that was stopped, with everything that there may be; and the error that there is no model."""
    page.evaluate(TRANSLATED)
    page.locator("#translate-run").click()
    expect(page.locator("#translate-error [role=alert]")).to_contain_text("no model")


# What a voice could have said, whose letters it did not all know.
SPOKEN = """async () => {
  const { speak } = pyappPage;
  await speak.ready;
  document.querySelectorAll('#view-speak details').forEach((details) => (details.open = true));
  document.getElementById('speak-voice').append(new Option('Heart (American, female)', 'af_heart'));
  document.getElementById('speak-voices').hidden = false;
  const content = { text: 'Good morning. How are you?', sentences: [{ start: 0, end: 1, text: 'Good morning.' }, { start: 1, end: 2, text: 'How are you?' }], rate: 24000, reason: 'cancelled', model: 'A model', voice: '' };
  const files = [{ name: 'speech.wav', blob: new Blob([new Uint8Array(44)], { type: 'audio/wav' }) }];
  await speak.open({ entry: speak.store.begin('Good morning'), content, files });
  document.querySelector('#speak-output span').classList.add('heard');
  document.getElementById('speak-note').textContent = 'Characters that the model does not know are left out: 🎈. Write numbers and signs as words.';
}"""  # noqa: E501


def speak(page: Page) -> None:
    """A speech that was stopped, with everything that there may be; and the error that there is no model."""
    page.evaluate(SPOKEN)
    page.locator("#speak-run").click()
    expect(page.locator("#speak-error [role=alert]")).to_contain_text("no model")


# What a model could have forecast.
FORECAST = """async () => {
  const { forecast } = pyappPage;
  await forecast.ready;
  document.querySelectorAll('#view-forecast details').forEach((details) => (details.open = true));
  for (const name of ['drawing-fields', 'frequency-field']) document.getElementById(`forecast-${name}`).hidden = false;
  const days = Array.from({ length: 60 }, (_, day) => Date.UTC(2026, 0, 1 + day));
  const values = days.map((_, day) => 1000 + 80 * (day % 7));
  const text = ['day,sold,price', ...days.map((day, i) => `${new Date(day).toISOString().slice(0, 10)},${values[i]},${i}`)].join('\\n');
  const ahead = Array.from({ length: 14 }, (_, day) => 1000 + 80 * ((4 + day) % 7));
  const quantiles = { 0.1: ahead.map((one, i) => one - 30 - i), 0.5: ahead, 0.9: ahead.map((one, i) => one + 30 + i) };
  const series = { name: 'sold', values, dates: days, step: { unit: 'ms', size: 86400000 } };
  const content = { text, series, forecast: ahead, quantiles, reason: 'complete', model: 'A model' };
  await forecast.open({ entry: forecast.store.begin('sold'), content });
  document.getElementById('forecast-note').textContent = 'Only the last 2,048 values of sold are read.';
}"""  # noqa: E501


def forecast(page: Page) -> None:
    """A forecast with everything that there may be; and the error that there is no model."""
    page.evaluate(FORECAST)
    expect(page.locator("#forecast-chart .band")).to_have_count(1)
    page.locator("#forecast-run").click()
    expect(page.locator("#forecast-error [role=alert]")).to_contain_text("no model")


# What a model could have answered.
ASKED = """() => {
  const { questions, page } = pyappPage.read;
  const answer = { score: 0.97, turns: 0, corners: [[[20, 20], [200, 20], [200, 60], [20, 60]]], page };
  questions.set([{ question: "What does it cost?", model: "A model", answers: [{ ...answer, answer: "41,000" }] }, { question: "Who?", model: "A model", answers: [] }]);
  return questions.point(questions.asked[0].answers[0]);
}"""  # noqa: E501


def read(page: Page) -> None:
    """A page with a table, of which a cell is marked, in a queue of two; everything open."""
    drawn = io.BytesIO()
    Image.fromarray(draw_table(Chooser("read", 3), angle=1.0).pixels).save(drawn, "PNG")
    shown(page, "read")
    page.evaluate("document.querySelectorAll('#view-read details').forEach((details) => (details.open = true))")
    files = [{"name": name, "mimeType": "image/png", "buffer": drawn.getvalue()} for name in ("table.png", "again.png")]
    page.locator("#read-files").set_input_files(files)  # type: ignore[arg-type]
    page.wait_for_selector("#read-queue li:nth-child(2)[data-state=done]", timeout=60_000)
    expect(page.locator("#history-reading .history-row")).not_to_have_count(0)
    page.locator("#read-text td span").nth(1).click()
    page.evaluate(ASKED)


def read_nothing(page: Page) -> None:
    """A picture that cannot be decoded."""
    page.locator("#read-edit").click()
    page.evaluate("pyappPage.read.add([new File(['no'], 'none.png')])")
    expect(page.locator("#read-error [role=alert]")).to_contain_text("cannot be decoded")


# What models could have found in the example of a street, in place of their work.
FOUND_IN_PICTURE = r"""async () => {
  const { pictures } = pyappPage;
  await pictures.ready;
  await pictures.add([new File(["<svg xmlns='http://www.w3.org/2000/svg' width='96' height='72'><rect width='96' height='72' fill='tan'/></svg>"], "street.svg", { type: "image/svg+xml" })]);
  const canvas = new OffscreenCanvas(200, 150);
  const context = canvas.getContext("2d");
  for (let x = 0; x < 200; x += 1) { context.fillStyle = `rgb(${x} ${x} ${x})`; context.fillRect(x, 0, 1, 150); }
  const bytes = new Uint8Array(await (await canvas.convertToBlob()).arrayBuffer());
  const labels = [{ label: "a red car", score: 0.82 }, { label: "a house", score: 0.13 }];
  const size = [150, 200], runs = [[1, 15000], [0, 9000], [2, 6000]];
  const segments = [{ label: "sky", number: 1, share: 0.5 }, { label: "road", number: 0, share: 0.3 }, { label: "car", number: 2, share: 0.2 }];
  const objects = [{ label: "car", score: 0.97, box: [20, 70, 120, 130] }, { label: "person", score: 0.31, box: [140, 30, 170, 120] }];
  const values = {
    detect: { objects, size }, segment: { segments, runs, size }, "cut-out": { segments: [{ ...segments[0], score: 0.9 }], runs: [[0, 9000], [1, 21000]], size },
    depth: { png: btoa(String.fromCharCode(...bytes)), least: 0, most: 1, metric: false, size }, "match-image": { labels }, "image-to-text": { text: "a red car on a street" },
  };
  for (const [task, found] of Object.entries(values)) pictures.results.set(task, { task, values: found, model: "A model", seconds: 1.2 });
  pictures.points = [{ x: 90, y: 100, label: 1 }, { x: 150, y: 20, label: 0 }];
  document.getElementById("look-words").value = "a red car\na house";
  await pictures.keep();
  document.querySelector("#history-picture").open = true;
}"""  # noqa: E501


def find_in_picture(page: Page) -> None:
    """Objects, of which one is marked."""
    page.evaluate(FOUND_IN_PICTURE)
    look_for(page, "detect")
    page.locator(".look-row").first.click()
    expect(page.locator("#history-picture .history-row")).to_have_count(1)


def look_for(page: Page, task: str) -> None:
    page.evaluate(f"pyappPage.pictures.choose('{task}')")
    expect(page.locator("#look-sheet")).to_have_attribute("data-state", "done")


def find_nothing_in_picture(page: Page) -> None:
    """There is no model for this."""
    look_for(page, "match-image")
    page.locator("#look-start").click()
    expect(page.locator("#look-error [role=alert]")).to_contain_text("no model")


def record(page: Page) -> None:
    page.context.grant_permissions(["microphone"])
    shown(page, "transcribe")
    page.evaluate("document.querySelectorAll('#view-transcribe details').forEach((details) => (details.open = true))")
    page.locator("#record").click()
    expect(page.locator("#live")).to_be_visible()


def record_elsewhere(page: Page) -> None:
    """A recording goes on while another view is shown."""
    shown(page, "story")
    expect(page.locator(".recording-sign")).to_be_visible()


def tell_update(page: Page) -> None:
    page.evaluate("pyappPage.transcribe.recordButton.interrupt()")
    page.context.clear_permissions()
    expect(page.locator("#offline-state")).to_contain_text("works offline", timeout=60_000)
    message = "new MessageEvent('message', { data: { notice: 'update-ready' } })"  # as of the service worker
    page.evaluate(f"navigator.serviceWorker.dispatchEvent({message})")
    expect(page.locator("#page-notice")).to_contain_text("A new version")


# In the order of a visit; each begins where the one before it ends, without its dialogs and errors.
STATES: dict[str, Callable[[Page], object]] = {
    "story": lambda page: None,
    "story written": write,
    "story settings": settings,
    "file refused": refuse,
    "models": list_models,
    "storage": list_storage,
    "transcribe": lambda page: shown(page, "transcribe"),
    "transcript": transcribe,
    "speakers": tell_apart,
    "speaker renamed": rename,
    "transcript edited": lambda page: page.locator("#edit-transcript").click(),
    "chat": lambda page: shown(page, "chat"),
    "conversation": talk,
    "conversation refused": refuse_setting,
    "conversation with pictures": show_pictures,
    "picture enlarged": enlarge,
    "search": lambda page: shown(page, "search"),
    "passages found": find,
    "texts compared": compare,
    "translate": lambda page: shown(page, "translate"),
    "text translated": translate,
    "speak": lambda page: shown(page, "speak"),
    "text spoken": speak,
    "forecast": lambda page: shown(page, "forecast"),
    "series forecast": forecast,
    "read": lambda page: shown(page, "read"),
    "page read": read,
    "page edited": lambda page: page.locator("#read-edit").click(),
    "picture refused": read_nothing,
    "pictures": lambda page: shown(page, "pictures"),
    "objects found": find_in_picture,
    "areas found": lambda page: look_for(page, "segment"),
    "cut out": lambda page: look_for(page, "cut-out"),
    "depth found": lambda page: look_for(page, "depth"),
    "picture captioned": lambda page: look_for(page, "image-to-text"),
    "words without a model": find_nothing_in_picture,
    "lab": lab,
    "recording": record,
    "recording elsewhere": record_elsewhere,
    "new version": tell_update,
}


def look(page: Page, viewport: ViewportSize, colors: str = "light") -> None:
    page.emulate_media(reduced_motion="reduce", color_scheme=colors, forced_colors="none")  # type: ignore[arg-type]
    page.set_viewport_size(viewport)


def keep(page: Page, name: str) -> None:
    """A screenshot for people, who ask for them: they are a tenth of the test's time."""
    if os.environ.get("PYAPP_SCREENSHOTS"):
        page.screenshot(path=OUTPUT / f"{name.replace(' ', '-')}.png")


def test_every_state_is_accessible(browser: BrowserContext, site: SiteServer, subtests: pytest.Subtests) -> None:
    page = browser.new_page()
    story = StoryPage(page).open(site.url)
    page.evaluate(AXE.read_text())
    size = ["target-size", "scrollable-region-focusable"]
    for (state, reach), width in zip(STATES.items(), itertools.cycle(BETWEEN), strict=False):
        look(page, WIDE)
        page.evaluate(CLOSE)
        reach(page)
        page.mouse.move(5, 400)
        with subtests.test(state):
            keep(page, state)
            assert page.evaluate(RUN, [True, {"runOnly": TAGS}]) == []
            page.evaluate(LETTERS, "200%")
            assert page.evaluate(TOO_WIDE) == page.evaluate(COVERED) == []
            page.evaluate(LETTERS, "")
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate(TOO_WIDE) == page.evaluate(COVERED) == []
        look(page, ZOOMED, colors="dark")
        with subtests.test(f"{state}, dark, 400 %"):
            keep(page, f"{state}-dark")
            assert page.evaluate(RUN, [False, {"runOnly": ["color-contrast", *size]}]) + page.evaluate(TOO_WIDE) == []
            # Where colours are forced, contrast is the system's, but borders come in.
            page.emulate_media(forced_colors="active")
            assert page.evaluate(TOO_WIDE) == []
    story.expected_errors = ["inline style"]  # of screenshots
    page.close()
    assert story.unexpected_errors() == [], "views that were opened one after the other disturb each other"
