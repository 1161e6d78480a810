"""Models on several threads: the same results, the setting, and what happens when a thread or a part fails."""

from __future__ import annotations

import re
import time

from playwright.sync_api import BrowserContext, expect

from e2e.conftest import ChangeableSite, watched
from e2e.page import StoryPage
from e2e.transcribe_page import TranscribePage

HELPER = "modules/worker/pool-helper.js"
# A helper without a stack: the first kernel that needs one ends with an error, in the middle of a share.
FAILING = b"""
self.onmessage = async ({ data: { program, memory } }) => {
  const { exports } = await WebAssembly.instantiate(program, { env: { memory } });
  exports.__stack_pointer.value = -65536;
  try {
    exports.pool_help();
  } catch (error) {
    exports.pool_lose();
    postMessage({ problem: error.message });
  }
};
"""
ONE_THREAD, TWO_THREADS = (f"localStorage.setItem('pyapp.threads', '{count}')" for count in (1, 2))


def set_threads(story: StoryPage, threads: str) -> None:
    """Chooses a number of threads in the panel, and waits for the new engine."""
    story.page.locator("#open-storage").click()
    worker = "globalThis.before = pyappPage.app.engine.worker, 1"
    story.page.evaluate(worker)
    story.page.locator("#threads").select_option(threads)
    story.until("pyappPage.app.engine.worker !== globalThis.before")
    story.wait_ready()
    expect(story.page.locator("#threads-help")).to_contain_text(f"on up to {threads} threads")
    story.close_dialog()


def suspended(story: StoryPage) -> None:
    """Suspends the tab while it writes, as browsers do with tabs in the background, and wakes it up again."""
    protocol = story.page.context.new_cdp_session(story.page)
    story.settings(max_new_tokens=128)
    story.start("One day")
    story.until("pyappPage.story.output.ids.length > 5")
    protocol.send("Page.setWebLifecycleState", {"state": "frozen"})
    time.sleep(0.3)
    protocol.send("Page.setWebLifecycleState", {"state": "active"})
    story.wait_done()
    protocol.detach()


def test_threads_change_no_result_and_are_kept(plain_browser: BrowserContext, changeable: ChangeableSite) -> None:
    with watched(plain_browser.new_page()) as story:
        story.page.add_init_script(f"localStorage.getItem('pyapp.threads') ?? {ONE_THREAD}")
        story.open(changeable.url)
        story.page.locator("#open-storage").click()
        expect(story.page.locator("#threads-help")).to_contain_text("on one thread")
        story.close_dialog()
        speech = TranscribePage(story.page)
        written, heard = [], []
        for threads in (1, 2):
            if threads == 2:
                set_threads(story, "2")
            assert story.engine("about.threads") == threads
            story.settings(max_new_tokens=48, seed=7)
            story.write("One day, a fox")
            written.append(story.ids())
            if threads == 2:
                suspended(story)
                story.settings(max_new_tokens=48, seed=7)
                story.write("One day, a fox")
                written.append(story.ids())
            story.page.evaluate("location.hash = '#transcribe'")
            story.page.locator("#samples button").first.click()
            speech.wait_done()
            heard.append(speech.segments())
            story.page.evaluate("location.hash = '#story'")
        assert written[0] == written[1] == written[2] and len(written[0]) > 20
        assert heard[0] == heard[1] != []
        story.page.reload()
        story.wait_ready()
        assert story.engine("about.threads") == 2, "the setting is not kept"
        expect(story.page.locator("#build-info")).to_contain_text("2 threads")


def write_until_it_fails(story: StoryPage) -> None:
    """A helper that starts late has taken no share when the first story is done."""
    for _ in range(10):
        story.start("One day")
        story.page.wait_for_timeout(500)
        story.wait_done()
        if story.error.count():
            return


def test_a_failing_thread_is_an_error_and_the_engine_goes_on(
    plain_browser: BrowserContext, changeable: ChangeableSite
) -> None:
    with changeable.changed({HELPER: FAILING}), watched(plain_browser.new_page()) as story:
        story.page.add_init_script(TWO_THREADS)
        story.open(changeable.url)
        for _ in range(2):
            assert story.engine("about.threads") == 2
            write_until_it_fails(story)
            expect(story.error).to_contain_text("A thread of the engine stopped working")
            expect(story.error).to_contain_text("No stored data is lost")
            story.until("pyappPage.app.engine.about !== null", timeout=60)
            expect(story.error).to_contain_text("A thread of the engine stopped working")  # after the restart too
            expect(story.error.get_by_role("button", name="Try again")).to_be_visible()
        assert story.engine("about.threads") == 1
        story.settings(max_new_tokens=8)
        assert story.write("One day")
        story.page.locator("#open-storage").click()
        expect(story.page.locator("#threads-help")).to_contain_text("failed 2 times")


def test_one_thread_where_a_part_does_not_load(plain_browser: BrowserContext, changeable: ChangeableSite) -> None:
    """Without the helper's script the engine's worker computes alone; without its kernels Pyodide's are used."""
    for name, threads in ((HELPER, 2), ("pool_relaxed.wasm", 1)):
        with changeable.changed({name: b"this is neither"}), watched(plain_browser.new_page()) as story:
            story.expected_errors = ["A helper of the engine did not start", "computes on one thread"]
            story.page.add_init_script(TWO_THREADS)
            story.open(changeable.url)
            assert story.engine("about.threads") == threads
            story.settings(max_new_tokens=8)
            assert story.write("One day")
            assert any(re.search("helper|one thread", error) for error in story.errors)
