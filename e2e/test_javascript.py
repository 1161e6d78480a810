"""web/pyapp.js in a page of somebody else (docs/javascript.md), which has the site's files in a folder beside it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from e2e.conftest import ROOT
from e2e.fake_hub import FakeHub
from pyapp import tasks
from pyapp.tasks.pipelines import pipeline
from scripts.serve import SiteServer
from tests.tasks.test_documents import folder as write_answerer
from tests.text.chat_model import write_chat_model
from tests.text.embedder import write_embedder

EXAMPLE = ROOT / "examples/javascript"
SAMPLES = ROOT / "web/models"
STARTED = 60_000  # ms until an engine has started on a busy machine, and has done its first work
RUN = """async (body) => {
  const { Engine, UserError } = await import("/pyapp/pyapp.js");
  globalThis.engine ??= new Engine({ threads: 2 });
  const said = (error) => error instanceof UserError ? `${error.what} ${error.where ?? ""}` : `another error: ${error}`;
  const fetched = async (path) => (await fetch(path)).blob();
  const AsyncFunction = (async () => {}).constructor;
  return new AsyncFunction("engine", "Engine", "said", "fetched", body)(globalThis.engine, Engine, said, fetched);
}"""
EMBED = """
const embedder = await engine.load("embed", [new URL("model.gguf", location.href)]);
export const vectors: Float32Array[] = await embedder.run(["a", "b"]);
"""
Script = Callable[[str], Any]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    write_embedder(folder := tmp_path_factory.mktemp("model") / "embedder")
    return folder


@pytest.fixture(scope="module")
def answerer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_answerer(tmp_path_factory.mktemp("model") / "answerer", "bert", "question-answering")


@pytest.fixture(scope="module")
def host(dist: Path, embedder: Path, answerer: Path) -> Iterator[SiteServer]:
    """A host that isolates its pages."""
    mounts = {"/pyapp/": dist, "/embedder/": embedder, "/answerer/": answerer, "/samples/": SAMPLES}
    with SiteServer(EXAMPLE, isolated=True, mounts=mounts) as server:
        yield server


@pytest.fixture(scope="module")
def page(plain_browser: BrowserContext, host: SiteServer) -> Iterator[Page]:
    page = plain_browser.new_page()
    page.goto(f"{host.url}samples/stories/README.md")  # a page without scripts
    yield page
    page.close()


@pytest.fixture
def run(page: Page) -> Script:
    """Runs the body of an asynchronous function of `engine`, `Engine`, `said` and `fetched`."""
    return lambda body: page.evaluate(RUN, body)


def test_a_story_as_events_and_as_a_result(run: Script) -> None:
    async def native() -> str:
        events = tasks.generate(None, "Once upon a time", {"temperature": 0, "max_new_tokens": 40})
        return "".join([event.text async for event in events if isinstance(event, tasks.Token)])

    with ThreadPoolExecutor(1) as thread:  # Playwright's loop runs in this one
        expected = thread.submit(asyncio.run, native()).result()

    found = run("""
        const { threads, isolated } = await engine.ready;
        const model = await engine.load("generate", "stories");
        const run = model.run("Once upon a time", { temperature: 0, max_new_tokens: 40 });
        const texts = [];
        for await (const event of run) if (event.type === "token") texts.push(event.text);
        const again = (await model.run("Hello", { max_new_tokens: 3 })).text.length > 0;
        const drawn = (more) => model.run("Hello", { max_new_tokens: 5, seed: 7, ...more });
        const samples = [(await drawn({ samples: 2 })).texts, (await drawn()).text];
        const { text, reason } = await run;
        return { threads, isolated, texts, text, reason, again, samples };
    """)
    [first, second], alone = found["samples"]
    assert first == alone != second and second
    assert (found["threads"], found["isolated"], found["again"]) == (2, True, True)
    assert "".join(found["texts"]) == found["text"] == expected
    assert found["reason"] == "length"


def test_sounds_and_pictures_of_a_page(run: Script) -> None:
    found = run("""
        const speech = await engine.load("transcribe", "speech");
        const sound = await fetched("/samples/speech/samples/weather.wav");
        const whole = await speech.run(sound);
        const samples = Float32Array.from(new Int16Array(await sound.slice(44).arrayBuffer()), (one) => one / 32768);
        const reader = await engine.load("read", "reader");
        const picture = await fetched("/samples/reader/samples/bill.png");
        const image = new Image();
        image.src = "/samples/reader/samples/bill.png";
        const [one, other] = [await reader.run(picture), await reader.run(image)];
        const live = speech.listen({ language: "en" });
        for (let i = 0; i < samples.length; i += 8000) await live.push(samples.slice(i, i + 8000));
        await live.finish();
        const same = (await speech.run(samples)).text === whole.text;
        return { live: (await live).text, text: whole.text, same, read: one.text, alike: one.text === other.text };
    """)
    assert found["text"].startswith("There will be snow in the west next Friday.")
    assert found["same"]
    assert "snow in the west" in found["live"]
    assert found["alike"]
    assert len(found["read"].split()) > 20


def test_files_by_their_addresses(run: Script, embedder: Path) -> None:
    texts = ["a small house", "der Hund"]
    names = sorted(path.relative_to(embedder).as_posix() for path in embedder.rglob("*") if path.is_file())
    assert any("/" in name for name in names)
    found = run(f"""
        const files = {names}.map((name) => new URL(`/embedder/${{name}}`, location.href));
        const model = await engine.load("embed", files);
        const vectors = await model.run({texts});
        engine.restart();
        const [again] = await model.run({texts[0]!r});
        await engine.forget(model);
        const gone = await model.run({texts[0]!r}).then(() => "", said);
        const plain = [...vectors, again].map((vector) => [...vector]);
        return {{ gone, size: model.about.dimensions, vectors: plain }};
    """)
    expected = pipeline("embed", str(embedder))(texts, normalize=True)
    for vector, wanted in zip(found["vectors"], [*expected, expected[0]], strict=True):
        assert vector == pytest.approx(list(wanted), abs=2e-2)
    assert found["size"] == len(expected[0])
    assert "does not have this model" in found["gone"]


def test_a_model_of_the_hub(run: Script, hub: FakeHub, tmp_path: Path) -> None:
    write_chat_model(tmp_path)
    for path in tmp_path.iterdir():
        hub.add("owner/talker", path.name, path.read_bytes())
    found = run(f"""
        const other = new Engine({{ hub: {hub.url!r}, threads: 1 }});
        const told = new Set();
        const model = await other.load("chat", "owner/talker", {{ onProgress: ({{ what }}) => told.add(what) }});
        const answer = await model.run([{{ role: "user", content: "Hello" }}], {{ max_new_tokens: 5 }});
        const missing = await other.load("chat", "owner/nothing").catch(said);
        other.close();
        const closed = await model.run("Hello").then(({{ reason }}) => reason, said);
        return {{ told: [...told], ...answer, missing, closed }};
    """)
    assert "Downloading" in found["told"]
    assert found["reason"] in ("length", "stop")
    assert "owner/nothing" in found["missing"]
    assert "closed" in found["closed"]


def test_an_answer_about_a_page(run: Script, answerer: Path) -> None:
    found = run(f"""
        const names = {sorted(path.name for path in answerer.iterdir())};
        const files = names.map((name) => new URL(`/answerer/${{name}}`, location.href));
        const model = await engine.load("answer", files);
        const reader = await engine.load("read", "reader");
        const page = await reader.run(await fetched("/samples/reader/samples/bill.png"));
        const answers = await model.run({{ question: "What is the total?", page }}, {{ top: 2 }});
        return {{ answers, text: page.text }};
    """)
    assert len(found["answers"]) == 2
    for answer in found["answers"]:
        assert answer["answer"].split()[0] in found["text"]
        assert len(answer["corners"]) >= 1


def test_types(dist: Path, tmp_path: Path) -> None:
    """Programs in TypeScript find the types beside pyapp.js, and what is wrong with their calls."""
    program = (EXAMPLE / "subtitles.ts").read_text()
    (tmp_path / "right.ts").write_text(program + EMBED)
    wrong_call = (program + EMBED).replace('"transcribe", "speech"', '"sing", "speech"')
    (tmp_path / "wrong.ts").write_text(wrong_call.replace("Float32Array[]", "string[]"))
    settings = json.loads((EXAMPLE / "tsconfig.json").read_text())
    (tmp_path / "pyapp").symlink_to(dist)
    compiler = [str(ROOT / "node_modules/.bin/tsc"), "--preserveSymlinks", "--project"]
    found = []
    for name in ("right", "wrong"):
        (tmp_path / f"{name}.json").write_text(json.dumps(settings | {"files": [f"{name}.ts"]}))
        found.append(subprocess.run([*compiler, str(tmp_path / f"{name}.json")], capture_output=True, text=True))
    right, wrong = found
    assert right.returncode == 0, right.stdout
    assert "'\"sing\"' is not assignable" in wrong.stdout and "type 'string'" in wrong.stdout, wrong.stdout


def test_the_site_on_another_host(plain_browser: BrowserContext, dist: Path) -> None:
    """A page may have the module and all other files from a host that lets it read them, threads included."""
    with (
        SiteServer(dist, headers={"Access-Control-Allow-Origin": "*"}) as other,
        SiteServer(EXAMPLE, isolated=True, mounts={"/samples/": SAMPLES}) as server,
    ):
        page = plain_browser.new_page()
        page.goto(f"{server.url}samples/stories/README.md")
        found = page.evaluate(f"""async () => {{
            const {{ Engine }} = await import("{other.url}pyapp.js");
            const engine = new Engine({{ threads: 2 }});
            const model = await engine.load("generate", "stories");
            const {{ text }} = await model.run("Once upon a time", {{ max_new_tokens: 20 }});
            return {{ text, ...(await engine.ready) }};
        }}""")
        page.close()
    assert found["text"] and found["threads"] == 2


def test_what_is_wrong(run: Script) -> None:
    found = run("""
        const model = await engine.load("generate", "stories");
        const run = model.run("Once", { max_new_tokens: 288, temperature: 0 });
        for await (const event of run) if (event.type === "token") break;
        const aborted = new AbortController();
        aborted.abort();
        return {
          task: await engine.load("sing", "stories").catch(said),
          name: await engine.load("generate", "none").catch(said),
          address: await engine.load("embed", [new URL("/embedder/none.json", location.href)]).catch(said),
          path: await engine.load("embed", ["model/config.json"]).catch(said),
          files: await engine.load("embed", new DataTransfer().files).catch(said),
          options: await model.run("Once", { temperature: -1 }).then(() => "", said),
          text: await model.run(5).then(() => "", said),
          signal: await model.run("Once", { signal: aborted.signal }).then(() => "", said),
          sound: await (await engine.load("transcribe", "speech")).run("a text").then(() => "", said),
          picture: await (await engine.load("read", "reader")).run("a text").then(() => "", said),
          left: (await run).reason,
          aborted: (await model.run("Once", {}, { signal: aborted.signal })).reason,
          tasks: await engine.models("sing").catch(said),
          nothing: (await model.run("Once", null, { signal: aborted.signal })).reason,
          samples: await (await engine.load("transcribe", "speech")).listen().push([0]).catch(said),
          engines: [
            { thread: 2 }, { threads: -2 }, { hub: "hub" }, { precision: "slow" }, { task: "sing" },
          ].map((options) => {
            try {
              return new Engine(options).close();
            } catch (error) {
              return said(error);
            }
          }),
        };
    """)
    assert found["engines"] == [
        'There is no option "thread". ', "This is no number of threads. -2", "This is no address of a hub. hub",
        'There is no precision "slow". ', 'There is no task "sing". ',
    ]  # fmt: skip
    assert found["tasks"] == found["task"] and found["nothing"] == "cancelled"
    assert found["samples"] == "These are no samples. "
    assert found["left"] == found["aborted"] == "cancelled"
    assert found["task"] == 'There is no task "sing". '
    assert found["name"] == "There is no such model. none"
    assert "the server answered 404" in found["address"]
    assert found["path"] == "This is no file and no address of one. model/config.json"
    assert found["files"].startswith("There are no files of a model.")
    assert "temperature" in found["options"]
    assert found["text"] == "This is not a text. 5"
    assert found["signal"].startswith("This cannot be sent to the engine's worker.")
    assert found["sound"] == "This is not a sound. "
    assert found["picture"] == "This is not a picture. "


def test_the_guide(plain_browser: BrowserContext, host: SiteServer) -> None:
    """The programs of docs/javascript.md run as they are printed."""
    blocks = re.findall(r"^```js\n(.*?)^```$", (ROOT / "docs/javascript.md").read_text(), re.DOTALL | re.MULTILINE)
    before = """
        globalThis.shown = "";
        globalThis.show = (text) => (shown += text);
        globalThis.recording = await (await fetch("/samples/speech/samples/weather.wav")).blob();
    """
    after = "globalThis.found = { text, segments: segments.length, shown };"
    page = plain_browser.new_page()
    program = "".join([blocks[0].splitlines()[0], before, *blocks[0].splitlines(True)[1:], *blocks[1:], after])
    script = f'<script type="module">{program}</script>'
    page.route(
        f"{host.url}guide.html", lambda route: route.fulfill(content_type="text/html", body=f"<!doctype html>{script}")
    )
    page.goto(f"{host.url}guide.html")
    found = page.wait_for_function("() => globalThis.found", timeout=STARTED).json_value()
    assert found["text"] and found["segments"] >= 1 and len(found["shown"]) > 100
    page.close()


def test_the_example_of_an_element(plain_browser: BrowserContext, host: SiteServer) -> None:
    """The example that writes a story runs in Firefox and in WebKit."""
    page = plain_browser.new_page()
    page.goto(f"{host.url}component.html")
    given = page.locator("text-reader[src]")
    expect(given.locator("div")).to_contain_text("Total", timeout=STARTED)
    chosen = page.locator("text-reader:not([src])")
    page.evaluate("document.body.addEventListener('read', ({ detail }) => (globalThis.heard = detail))")
    chosen.locator("input").set_input_files(SAMPLES / "reader/samples/bill.png")
    expect(chosen.locator("div")).to_contain_text("Total")
    assert page.evaluate("heard") == given.locator("div").text_content()
    chosen.locator("input").set_input_files(EXAMPLE / "component.html")
    expect(chosen.get_by_role("status")).to_contain_text("picture")
    page.close()


def test_the_example_of_a_microphone(one_browser: BrowserContext, host: SiteServer) -> None:
    one_browser.grant_permissions(["microphone"])
    page = one_browser.new_page()
    page.goto(f"{host.url}microphone.html")
    page.get_by_role("button", name="Listen").click()
    expect(page.locator("#text")).to_contain_text(re.compile(r"\w+ \w+ \w+"), timeout=STARTED)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#status")).to_have_text("Done.")
    one_browser.clear_permissions()
    page.get_by_role("button", name="Listen").click()
    expect(page.locator("#status")).to_contain_text("The browser refused access to the microphone.")
    expect(page.get_by_role("button", name="Listen")).to_be_enabled()
    page.close()
