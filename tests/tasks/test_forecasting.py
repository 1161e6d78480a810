"""`pyapp forecast` and POST /v1/forecast, with the values of the task."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from tests.models.forecaster_configs import series
from tests.models.test_forecasters import write
from tests.serve.in_process import serving
from tests.together import check_each, values_of

pytestmark = pytest.mark.native_only


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    top = tmp_path_factory.mktemp("forecasters")
    return {name: write(top / name, name) for name in ("timesfm", "chronos", "patchtsmixer_series")}


def invoke(*arguments: str, text: str | None = None) -> Any:
    from pyapp.cli import cli

    return pytest.importorskip("click.testing").CliRunner().invoke(cli, ["forecast", *arguments], input=text)


def forecasts(given: Any, **options: Any) -> list[Any]:
    return values_of(tasks.forecast(given, **options))


def test_columns_of_a_file(folders: dict[str, Path], tmp_path: Path) -> None:
    one, other = series(2, 20).tolist()
    file, model = tmp_path / "sales.csv", str(folders["timesfm"])
    lines = [
        "day;price;units",
        *(f"2024-01-{i + 1:02};{a};{b}" for i, (a, b) in enumerate(zip(one, other, strict=True))),
    ]
    file.write_text("\n".join(lines) + "\n")
    chosen = ["-c", "units", "-c", "price"]
    found = invoke(str(file), "-m", model, *chosen, "--delimiter", ";", "-n", "8", "--quantiles", "0.5,0.3")
    assert found.exit_code == 0, found.output
    rows = list(csv.reader(io.StringIO(found.stdout)))
    assert rows[0] == ["series", "step", "forecast", "0.3", "0.5"] and len(rows) == 17
    expected = forecasts({"units": other, "price": one}, model=model, horizon=8, quantiles=[0.3, 0.5])
    for number, entry in enumerate(expected):
        own = rows[1 + 8 * number : 9 + 8 * number]
        assert [row[:2] for row in own] == [[entry["name"], str(step)] for step in range(1, 9)]
        columns = [entry["forecast"], entry["quantiles"]["0.3"], entry["quantiles"]["0.5"]]
        np.testing.assert_allclose(np.array([row[2:] for row in own], float).T, columns, rtol=1e-6)
    plain = invoke("-", "-m", str(folders["chronos"]), "-n", "2", "--quantiles", "none", text="1\n2\n\n3.5\n")
    header, *rest = plain.stdout.splitlines()
    assert header == "series,step,forecast" and [row.split(",")[:2] for row in rest] == [["1", "1"], ["1", "2"]]


def test_files_that_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "a.csv"

    def check(text: str, told: str, *arguments: str) -> None:
        file.write_text(text)
        found = invoke(str(file), "-m", str(folders["timesfm"]), *arguments)
        assert found.stdout == "" and told in " ".join(found.stderr.split()), (text, found.output)

    check_each(
        check, [("a,b\n1,2\n", "--column NAME"), ("a,b\n1,2\n", "no column 'c'. It has a, b", "-c", "c"),
        ("a,a\n1,2\n", "two columns 'a'", "-c", "a"), ("a\n1\nx\n", "line 3: column 'a' has 'x'"),
        ("a,b\n1,2\n,3\n", "line 3: column 'a' has a gap", "-c", "a"), ("", "is empty"),
        ("a,b\n1\n", "it has 1 cells", "-c", "a"), ("a\n", "it has 0 values"), ("a\n1e400\n", "value 1 is inf"),
        ("a\n1\n", "above 0 and below 1", "--quantiles", "1.5"), ("a\n1\n", "one character", "--delimiter", "::"),
        ("a\nnan\n", "value 1 is missing"), ("a\n1_000\n", "not a number")],
    )  # fmt: skip
    missing = invoke(str(tmp_path / "none.csv"), "-m", str(folders["timesfm"]))
    assert missing.exit_code != 0 and "none.csv" in missing.output


def test_the_route(folders: dict[str, Path]) -> None:

    models = tuple(f"{name}={path}" for name, path in folders.items())
    with serving(*models) as client:
        past = series(3, 16).tolist()
        named = dict(zip(("a", "b", "c"), past, strict=True))
        body = {"series": past[:2], "horizon": 7, "quantiles": [0.5]}
        found = client.post("/v1/forecast", json=body | {"model": "timesfm"}).json()
        assert found["object"] == "list" and found["model"] == "timesfm"
        assert found["data"] == forecasts(past[:2], model=str(folders["timesfm"]), horizon=7, quantiles=[0.5])
        assert client.post("/models/timesfm", json=body).json() == found
        drawn = client.post(
            "/v1/forecast", json={"model": "chronos", "series": past[0], "samples": 3, "seed": 5}
        ).json()
        assert drawn["data"] == forecasts(past[0], model=str(folders["chronos"]), samples=3, seed=5)
        chosen = client.post("/models/patchtsmixer_series", json={"series": named}).json()["data"]
        assert chosen == forecasts(named, model=str(folders["patchtsmixer_series"])) and len(chosen) == 2
        assert [entry["name"] for entry in chosen] == ["a", "c"]

        def check(body: Any, param: str, told: str) -> None:
            answer = client.post("/v1/forecast", json=body)
            assert answer.status_code == 400, answer.text
            assert answer.json()["error"]["param"] == param and told in answer.json()["error"]["message"], answer.text

        check_each(
            check, [({}, "series", "missing"), ({"series": "1, 2"}, "series", "array"),
            ({"series": {"a": 1}}, "series", ""), ({"series": [1, None]}, "series", "missing"),
            ({"series": [[1], 2]}, "series", ""),
            ({"series": [1], "horizon": 0}, "horizon", ""), ({"series": [1], "horizon": 1e9}, "horizon", ""),
            ({"series": [1], "quantiles": [3]}, "quantiles", "3"), ({"series": [1], "frequency": 7}, "frequency", ""),
            ({"series": [1], "steps": 3}, "steps", "no such field"), ({"series": []}, "series", "0 values")],
        )  # fmt: skip
