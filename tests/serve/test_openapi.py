"""/openapi.json says what the routes do: its examples are sent, its fields are those that the routes ask for."""

from __future__ import annotations

import json
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from pyapp.formats.png import encode_png
from tests.serve.conftest import ROOT

pytestmark = pytest.mark.native_only

ODD: tuple[Any, ...] = (
    None, -1, 0, 2**63, 10**30, 1e308, float("nan"), "", "x" * 5000, "\0", "\U0001f600" * 9, True, [], {}, [[]], [None],
    [1, "a"], [-1], [2**40], {"a": {"b": [1]}}, ["a"] * 300, [""],
)  # fmt: skip
SOUND = ROOT / "web/models/speech/samples/weather.wav"


def test_every_route_is_described(client: Any) -> None:
    from pyapp.serve import app, openapi

    assert list(openapi.ROUTES) == [(method, path) for method, path, _ in app.ROUTES]
    found = client.get("/openapi.json").json()
    assert found["openapi"] == "3.1.0" and "security" not in found
    operations = [operation for path in found["paths"].values() for operation in path.values()]
    assert len({operation["operationId"] for operation in operations}) == len(openapi.ROUTES)
    assert openapi.description(keys=True)["security"]


def test_the_description_is_valid() -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    from pyapp.serve.openapi import description

    validator.validate(description(keys=True))


def test_examples_and_fields(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field that a route asks for, or lets pass, is described, and no other."""
    from pyapp.serve import drawing, openapi, speech
    from pyapp.serve.fields import Fields

    asked: dict[str, set[str]] = {}

    def any_field(self: Fields, name: str, default: Any = None, known: Any = Fields.any) -> Any:
        asked.setdefault(self._path, set()).add(name)
        return known(self, name, default)

    def end(self: Fields, ignored: Any = (), known: Any = Fields.end) -> None:
        asked.setdefault(self._path, set()).update(ignored)
        known(self, ignored)

    monkeypatch.setattr(Fields, "any", any_field)
    monkeypatch.setattr(Fields, "end", end)
    for (method, path), route in openapi.ROUTES.items():
        asked.clear()
        where = path.replace("{name:path}", "chat")
        if "{id}" in where:
            where = where.replace("{id}", client.post("/v1/responses", json={"input": "a"}).json()["id"])
        if path == "/v1/images/edits":
            picture = encode_png(np.zeros((8, 8, 3), np.uint8))
            answer = client.post(where, files={"image": ("a.png", picture)}, data={"prompt": "a", "steps": "2"})
            assert asked[""] | {*drawing.FILES} == set(route.fields or ()), path
        elif route.form:
            answer = client.post(where, files={"file": ("a.wav", SOUND.read_bytes())})
            assert set(route.fields or ()) == set(speech.FIELDS), path
        elif route.example is not None:
            answer = client.post(where, json=dict(route.example))
            assert asked[""] == set(route.fields or ()), path
            for name in asked.keys() & set(route.fields or ()):
                inner = (route.fields or {})[name].get("properties", {})
                assert asked[name] == set(inner), (path, name)
        else:
            answer = client.request(method, where)
        lacking = {
            "/predict": "model",
            "/classify": "model",
            "/v1/audio/translations": "model",
            "/infill": "input_suffix",
            "/v1/forecast": "model",
        }
        if path in lacking:  # the models here cannot do this
            assert answer.json()["error"]["param"] == lacking[path], answer.text
            continue
        assert answer.status_code == 200, (method, path, answer.text)
        kinds = openapi.description(False)["paths"][path.replace(":path", "")][method.lower()]["responses"]["200"]
        assert answer.headers["content-type"].partition(";")[0] in kinds["content"], path


def test_odd_values_of_every_field_are_answered(client: Any) -> None:
    """Each field of each route, and one that no route has: an answer, or a refusal in OpenAI's form, no defect."""
    from pyapp.serve import openapi

    odd, asked, wrong = cycle(ODD), 0, []
    seen: set[int] = set()  # routes that are the same by another name
    for (_, path), route in openapi.ROUTES.items():
        if route.example is None or route.form or id(route) in seen:
            continue
        seen.add(id(route))
        path = path.replace("{name:path}", "chat")
        example = dict(route.example)
        example |= {name: 2 for name in ("max_tokens", "max_output_tokens") if name in (route.fields or {})}
        inner = (route.fields or {}).get("parameters", {}).get("properties", {})
        bodies = [example | {name: next(odd)} for name in [*(route.fields or ()), "nobodys"] for _ in range(2)]
        bodies += [example | {"parameters": {"max_new_tokens": 2, name: next(odd)}} for name in inner for _ in range(2)]
        for body in (*bodies, [], [example], next(odd)):
            text = json.dumps(body)
            answer = client.post(path, content=text, headers={"Content-Type": "application/json"})
            asked += 1
            if answer.status_code != 200:
                error = answer.json()["error"] if answer.headers["content-type"] == "application/json" else None
                if not (400 <= answer.status_code < 500 and error):
                    wrong.append((path, text[:200], answer.status_code, answer.text[:200]))
    assert not wrong and asked > 300
    assert client.get("/health").status_code == 200
