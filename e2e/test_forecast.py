"""Forecast: a table is forecast as natively, by a model of files and of a hub; the chart, its slider and the table of
numbers; what is saved and kept; columns, dates; tables with errors; Stop.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from e2e.conftest import ROOT, shared
from e2e.fake_hub import FakeHub
from e2e.page import ViewPage
from pyapp.events import Item
from pyapp.formats import open_checkpoint, write_sharded_safetensors
from pyapp.models.loading.forecasting import load_forecaster
from pyapp.tasks.forecasting import forecast_series
from scripts.serve import SiteServer
from tests.models.test_forecasters import write

REPO = "series/bolt"
DAYS = [f"2026-0{1 + day // 28}-{1 + day % 28:02},{50 + 10 * (day % 7) + day / 4}" for day in range(28)]
TABLE = "\n".join(["day,sold", *DAYS])
DROP = """(files) => {
  const bytes = (hex) => Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
  return pyappPage.router.take(Object.entries(files).map(([name, hex]) => new File([bytes(hex)], name)));
}"""


class ForecastPage(ViewPage):
    """The forecast view in one tab."""

    view = "forecast"

    def __init__(self, page: Any) -> None:
        super().__init__(page)
        self.field = page.locator("#forecast-text")

    def write_table(self, text: str) -> None:
        self.page.evaluate("(text) => pyappPage.forecast.drop([new File([text], 'a.csv')])", text)
        expect(self.field).to_have_value(text.strip())

    def forecast(self, text: str, horizon: int = 9) -> list[list[str]]:
        """The rows that are saved."""
        self.write_table(text)
        self.page.locator("#forecast-horizon").fill(str(horizon))
        self.page.locator("#forecast-horizon").blur()
        self.field.press("Control+Enter")
        # The first forecast of a tab fetches the later parts of Python, which takes its time beside other suites.
        self.until("pyappPage.forecast.result?.forecast.length && !pyappPage.forecast.button.running", timeout=60.0)
        return self.saved()

    def saved(self) -> list[list[str]]:
        download = self.download("#forecast-save")
        assert download.suggested_filename == "forecast.csv"
        return list(csv.reader(io.StringIO(Path(download.path()).read_text())))

    def refused(self, text: str) -> str:
        self.write_table(text)
        self.field.press("Control+Enter")
        expect(self.error).to_be_visible()
        return self.error.inner_text()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Chronos-Bolt of random weights."""
    return write(tmp_path_factory.mktemp("forecasters") / "bolt", "chronos_bolt")


@pytest.fixture(scope="module")
def forecast_tab(browser: BrowserContext, site: SiteServer, folder: Path) -> Iterator[ForecastPage]:
    """A tab with the model, which was dropped on another view."""
    page = ForecastPage(browser.new_page()).open(site.url)
    page.page.locator("#forecast-samples button").nth(1).click()  # before there is a model
    expect(page.page.locator("#forecast-caption")).to_have_text("tonnes: 144 values. The last 120 values are drawn.")
    page.page.evaluate("location.hash = '#story'")
    files = {path.name: path.read_bytes().hex() for path in folder.iterdir()}
    page.page.evaluate(DROP, files)
    expect(page.page.locator("#view-forecast")).to_be_visible()
    expect(page.page.locator("#forecast-model .model-name")).to_have_text("model.safetensors")
    yield page
    page.page.close()


@pytest.fixture
def visit(forecast_tab: ForecastPage, site: SiteServer, request: pytest.FixtureRequest) -> Iterator[ForecastPage]:
    forecast_tab.errors.clear()
    with shared(forecast_tab, site.url, request, reset=False):
        yield forecast_tab


def native(model: Any, values: list[float], **options: Any) -> np.ndarray:
    """The forecast and its quantiles (horizon, 1 + levels)."""

    events = forecast_series(load_forecaster(model), values, **options)
    [found] = [event.values for event in events if isinstance(event, Item)]
    return np.array([found["forecast"], *found["quantiles"].values()]).T


def sold(rows: list[str]) -> list[float]:
    return [float(row.split(",")[1]) for row in rows]


def test_a_table_is_forecast_as_natively(visit: ForecastPage, folder: Path) -> None:
    page = visit.page
    rows = visit.forecast(TABLE)
    assert rows[0] == ["date", "forecast", "0.1", "0.5", "0.9"]
    assert [row[0] for row in rows[1:4]] == ["2026-01-29", "2026-01-30", "2026-01-31"]
    found = np.array([row[1:] for row in rows[1:]], float)
    np.testing.assert_allclose(found, native(folder, sold(DAYS), horizon=9), rtol=1e-4)
    # The slider reads values, with keys; the table has them all.
    slider = page.get_by_role("slider", name="Value to read")
    slider.focus()
    assert "2026-02-06: forecast" in str(slider.get_attribute("aria-valuetext"))
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", "2026-01-01: 50")
    page.locator("#forecast-numbers summary").click()
    assert page.locator("#forecast-table tbody tr").count() == 9
    expect(page.locator("#forecast-table thead")).to_contain_text("Level 0.9")
    assert page.locator("#forecast-chart .band").count() == 1
    expect(page.locator("#forecast-announcer")).to_have_text("Finished. sold: 28 values, and 9 ahead.")


def test_a_model_of_a_hub_forecasts_as_natively(
    visit: ForecastPage, hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    page = visit.page
    for path in folder.iterdir():
        if path.name != "model.safetensors":
            hub.add(REPO, path.name, path.read_bytes())
    with open_checkpoint(folder / "model.safetensors") as file:  # whose weights the hub has in several parts
        write_sharded_safetensors(tmp_path, {name: file.read(name) for name in file.tensors}, limit=1 << 13)
    parts = sorted(tmp_path.iterdir())
    assert len(parts) > 2
    for path in parts:
        hub.add(REPO, path.name, path.read_bytes())
    visit.set_hub(hub.url)
    page.locator("#forecast-model").get_by_role("button", name="Choose").click()
    visit.models_opened()
    page.locator("#hub-name").fill(REPO)
    page.locator("#hub-find").click()
    page.locator("#hub-found").get_by_role("button", name="Download").click()
    expect(page.locator("dialog[open]")).to_have_count(0)
    page.locator("#forecast-levels").fill("0.3; 0.7")
    page.locator("#forecast-levels").blur()
    table = "a;b\n" + "\n".join(f"{number};{number % 5 * 1.5}".replace(".", ",") for number in range(20))
    visit.write_table(table)
    page.locator("#forecast-column").select_option(label="b")
    rows = visit.forecast(table, 8)
    assert rows[0] == ["step", "forecast", "0.3", "0.7"] and rows[8][0] == "+8"
    wanted = native(folder, [number % 5 * 1.5 for number in range(20)], horizon=8, quantiles=[0.3, 0.7])
    np.testing.assert_allclose(np.array([row[1:] for row in rows[1:]], float), wanted, rtol=1e-4, atol=1e-4)
    # It is kept, and there again after a reload, with the column.
    page.reload()
    visit.wait_ready()
    page.evaluate("pyappPage.forecast.ready")
    expect(page.locator("#forecast-table tbody tr")).to_have_count(8)
    expect(visit.field).to_have_value(table)
    expect(page.locator("#forecast-column option:checked")).to_have_text("b")
    assert visit.saved() == rows
    page.locator("#history-forecast summary").click()
    expect(page.locator("#history-forecast .history-row").first).to_contain_text("b, 8 values ahead")
    page.locator("#forecast-levels").fill("0.95")
    visit.field.press("Control+Enter")
    expect(visit.error).to_contain_text("“Quantile levels” the model knows those from 0.1 to 0.9")
    expect(page.locator("#forecast-announcer")).to_have_text("")  # the error is announced, not that it is at work
    page.locator("#forecast-levels").fill("ten")
    visit.field.press("Control+Enter")
    expect(visit.error).to_contain_text("“Quantile levels” are numbers above 0 and below 1")
    page.locator("#forecast-levels").fill("0.1, 0.5, 0.9")
    page.locator("#forecast-levels").blur()


def test_dates_that_months_and_steps_make(visit: ForecastPage) -> None:
    months = "\n".join(["month,x", *(f"{2020 + i // 12}-{1 + i % 12:02},{i}" for i in range(30))])
    assert [row[0] for row in visit.forecast(months, 3)[1:]] == ["2022-07", "2022-08", "2022-09"]
    hours = "\n".join(["at,x", *(f"2026-03-01 {i:02}:30,{i}" for i in range(24))])
    assert visit.forecast(hours, 2)[1][0] == "2026-03-02 00:30"
    turned = "\n".join(["day,x", *(f"2026-03-{20 - i},{i}" for i in range(10))])
    assert visit.forecast(turned, 1)[1][0] == "2026-03-21"
    assert visit.page.evaluate("pyappPage.forecast.result.series.values") == list(range(9, -1, -1))
    uneven = "\n".join(["day,x", *(f"2026-03-{day:02},{day}" for day in (1, 2, 3, 4, 9, 10))])
    assert visit.forecast(uneven, 1)[1][0] == "+1"
    assert visit.forecast("\n".join(map(str, range(12))), 1)[1][0] == "+1"  # without names


def test_tables_that_cannot_be_forecast(visit: ForecastPage) -> None:
    page = visit.page
    assert "No column of this table has numbers" in visit.refused("a,b\nx,y\nz,w\n")
    assert all(words in visit.refused("d,x\na,1\nb,\nc,3\nd,4\ne,5") for words in ("A value is missing", "line 3"))
    assert all(words in visit.refused("x\n1\n2\nmany\n4\n5\n") for words in ("“many” is not a number", "line 4"))
    assert all(words in visit.refused("x\n1\n2") for words in ("too short", "2 values"))
    visit.field.fill("")
    visit.field.press("Control+Enter")
    page.evaluate("pyappPage.forecast.drop([new File([new Uint8Array([255, 0, 1, 2])], 'a.csv')])")
    expect(visit.error).to_contain_text("not a text file")
    page.evaluate("pyappPage.forecast.drop([new File(['a,'.repeat(500000)], 'wide.csv')])")
    expect(visit.error).to_contain_text("A line of this table has 1,000,000 characters")
    visit.field.fill("b," * 30000)  # as a paste
    expect(visit.error).to_contain_text("A line of this table has 60,000 characters")
    expect(visit.field).to_have_value("")
    page.evaluate("pyappPage.forecast.drop([Object.defineProperty(new File([], 'a.csv'), 'size', { value: 1e8 })])")
    expect(visit.error).to_contain_text("This file has 100 MB")
    page.evaluate("pyappPage.forecast.drop([new File(['x\\n' + '1\\n'.repeat(20000)], 'long.csv')])")
    expect(page.locator("#forecast-note")).to_contain_text("The last 16,384 lines of long.csv")
    assert page.evaluate("pyappPage.forecast.series.values.length") == 16384
    visit.field.fill("x\n" + "2\n" * 20000)  # as a paste
    expect(page.locator("#forecast-note")).to_contain_text("The last 16,384 lines of the pasted text")
    assert page.evaluate("pyappPage.forecast.series.values") == [2] * 16384


def test_a_forecast_is_stopped(visit: ForecastPage) -> None:
    page = visit.page
    visit.write_table(TABLE)
    page.locator("#forecast-horizon").fill("16384")
    page.locator("#forecast-horizon").blur()
    visit.field.press("Control+Enter")
    expect(page.locator("#forecast-progress")).to_contain_text("of 16,384 values")
    page.keyboard.press("Escape")
    visit.until("!pyappPage.forecast.button.running")
    expect(page.locator("#forecast-announcer")).to_have_text("Stopped.")
    expect(page.locator("#forecast-foot")).to_be_hidden()
    page.locator("#forecast-horizon").fill("9")
    page.locator("#forecast-horizon").blur()


def test_the_samples_of_the_page(visit: ForecastPage) -> None:
    samples = visit.page.locator("#forecast-samples button")
    assert samples.count() == len(list((ROOT / "web" / "samples").iterdir()))
    samples.nth(2).click()
    visit.until("pyappPage.forecast.result?.forecast.length && !pyappPage.forecast.button.running")
    assert [row[0] for row in visit.saved()[1:3]] == ["2026-03-02 00:00", "2026-03-02 01:00"]
    expect(visit.page.locator("#forecast-caption")).to_contain_text("megawatts: 672 values")
