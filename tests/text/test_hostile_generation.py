"""Hostile settings and forms of generation: clear errors that name the setting, or a text, and soon."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest

from pyapp.errors import ModelError, OptionError, PyappError
from pyapp.events import Done, Event, Token
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.several import generate_several
from pyapp.text.structured_output.automata import Automaton, compile_expression
from pyapp.text.structured_output.json_forms import Schema
from pyapp.text.structured_output.structured import form_of
from pyapp.text.tokenization.patterns import Pattern
from tests.hostile import VALUES, hostile_documents
from tests.text.table_model import VOCABULARY, TableModel, TableTokenizer
from tests.text.test_structured import PERSON
from tests.together import check_each, fewer_in_browser

TOKENIZER: Any = TableTokenizer()
DEVICE = Session(TableModel()).device
SECONDS = 30 if sys.platform == "emscripten" else 2  # a quarter of them where no one else uses the machine
STRANGE = (
    *VALUES, 10**5000, -(10**5000), [10**5000], {10**5000: 1}, {"3": 10**5000}, 1j, b"1", Fraction(1, 3), range(3),
    object(), float, (), ((1, math.nan),), [True], {1}, "never", " 1", 1e-300, -1e-300, 2**63 - 1,
)  # fmt: skip


def run(prompt: str = "c", **settings: Any) -> list[Event]:
    options = SamplingOptions.from_dict({"max_new_tokens": 6} | settings)
    if options.samples > 1 or options.beams > 1:
        return list(generate_several(TableModel(), TOKENIZER, prompt, options))
    return list(generate(Session(TableModel()), TOKENIZER, prompt, options))


@pytest.mark.parametrize("name", [field.name for field in fields(SamplingOptions)])
def test_strange_values_are_refused_by_name(name: str) -> None:
    refused = 0

    def check(_: str, value: Any) -> None:
        nonlocal refused
        try:
            SamplingOptions.from_dict({name: value})
        except OptionError as error:
            refused += 1
            assert error.where == name and len(error.message) < 300

    check_each(check, [(f"value {number}", value) for number, value in enumerate(STRANGE)])
    assert refused > len(STRANGE) // 4


@pytest.mark.parametrize("values", [None, 5, "top_k", [1], b"{}", {"top_k": 1, "topk": 2}, {1: 2}], ids=str)
def test_what_are_no_settings(values: Any) -> None:
    with pytest.raises(OptionError, match=r"must be names and values|no such setting"):
        SamplingOptions.from_dict(values)


EXTREMES: dict[str, tuple[Any, ...]] = {
    "temperature": (0, 1e-300, 1e-40, 1e-5, 100), "top_k": (0, 1, 2, 1 << 31), "top_p": (0, 1e-300, 1e-9, 0.5, 1),
    "min_p": (0, 1e-300, 0.5, 1), "typical_p": (0, 1e-300, 0.5, 1), "repetition_penalty": (0.01, 1, 100),
    "frequency_penalty": (-2, 0, 2), "presence_penalty": (-2, 0, 2), "no_repeat_ngram": (0, 1, 2, 1000),
    "logit_bias": ({}, {"2": 100}, {str(token): -100 for token in range(VOCABULARY)}), "logprobs": (None, 0, 100),
    "seed": (0, 2**64 - 1), "max_new_tokens": (None, 1, 60, 1 << 31), "stop": ([], ["q"], ["x" * 5000, "\ud800"]),
    "stop_tokens": ([], [2**31 - 1], list(range(VOCABULARY))), "rolling": (False, True), "keep": (0, 3, 2**31),
    "lookup": (0, 1, 64), "samples": (1, 3), "beams": (1, 2), "length_penalty": (-10, 0, 10),
    "early_stopping": (True, False, "never"), "regex": (None, "(a|b)*", "a{3}", ".{0,9}"), "context": (None, 1, 64),
    "cache_type": ("f32",),
}  # fmt: skip


def test_extremes_together() -> None:
    """Any permitted values, with each other: a text, or an error that says which setting is in the way."""
    chance = random.Random(7)
    ended = 0

    def check(settings: dict[str, Any]) -> None:
        nonlocal ended
        try:
            events = run(**settings)
        except OptionError as error:
            assert error.where in {*settings, "prompt", "max_new_tokens"}, error
            return
        assert isinstance(events[-1], Done)
        ended += 1

    cases = []
    for _ in range(400):
        chosen = chance.sample(sorted(EXTREMES), chance.randint(1, 8))
        cases.append(({name: chance.choice(EXTREMES[name]) for name in chosen},))
    cases = fewer_in_browser(cases)
    check_each(check, cases)
    assert ended > len(cases) // 3


def test_a_form_comes_before_forbidden_repetitions() -> None:
    """Where both leave nothing, the text has the form; without a form, the error names the setting."""
    for several in ({}, {"samples": 2}, {"beams": 2}):
        events = run(regex="a{6}", no_repeat_ngram=1, **several)
        texts = [event for event in events if isinstance(event, Token)]
        assert "".join(event.text for event in texts if not event.sample) == "aaaaaa"
        assert isinstance(events[-1], Done) and events[-1].reason in ("stop", "complete")
    for several in ({}, {"samples": 2}, {"beams": 2}):
        with pytest.raises(OptionError, match="no_repeat_ngram: every token would repeat a sequence of 1. Choose"):
            run("c\2", no_repeat_ngram=1, max_new_tokens=60, **several)  # the end of the text has occurred too


@pytest.mark.parametrize("wrong", [math.nan, -math.inf])
def test_logits_that_choose_nothing(wrong: float) -> None:
    model = TableModel()
    model.table.fill_(wrong)
    for settings in ({}, {"temperature": 0}, {"no_repeat_ngram": 1}, {"regex": "a*"}, {"logprobs": 3}):
        with pytest.raises(ModelError, match="weights are damaged. Download"):
            list(generate(Session(model), TOKENIZER, "c", SamplingOptions.from_dict(settings)))


# -- forms

MANY = {f"d{i}": {"properties": {f"p{j}": {"$ref": f"#/$defs/d{j}"} for j in range(8)}} for i in range(8)}
FANS: dict[str, Any] = {f"f{i}": {"anyOf": [{"$ref": f"#/$defs/f{i + 1}"}] * 9} for i in range(6)}
FANS |= {"f6": {"type": "string"}}
REFUSED: list[tuple[Any, str]] = [
    ({"enum": [math.inf], "type": "integer"}, "not JSON"),
    ({"const": {1, 2}}, "not JSON"),
    ({"const": 10**5000}, "not JSON"),
    ({"allOf": [{"type": "integer"}, {"enum": [1], "type": 5}]}, "5 is not a type"),
    ({"allOf": [{"type": [{}]}, {"type": ["null"]}]}, "is not a type"),
    ({"allOf": [{"type": "integer"}, {"oneOf": 5}]}, "oneOf must be a list"),
    ({"allOf": [{"type": "integer"}, {"allOf": 5}]}, "allOf must be a list"),
    ({"allOf": [{"required": [[]]}, {"properties": {}}]}, "required lists of texts"),
    ({"oneOf": [{"required": [1], "properties": {}}, {"required": 2, "properties": {}}]}, "may both fit"),
    ({"allOf": [{"const": 1, "enum": [2]}, {"type": "integer"}]}, "no text of this form"),
    ({"allOf": [{"type": ["number", "integer"]}, {"type": "string"}]}, "no text of this form"),
    ({"$ref": "#/enum/" + "9" * 5000, "enum": [1]}, "is missing"),
    ({"$ref": "#", "minimum": 1}, "contain themselves"),
    ({"anyOf": [{"$ref": "#/anyOf/" + "9" * 5000}]}, "is missing"),
    ({"$ref": "#/$defs/d0", "$defs": MANY}, "too large"),
    ({"allOf": [{"$ref": "#/$defs/f2"}, {"type": "string"}], "$defs": FANS}, "too many to compare"),
    ({"oneOf": [{"$ref": "#/$defs/f0"}, {"type": "null"}], "$defs": FANS}, "too many to compare"),
    ({"$ref": "#/$defs/f0", "$defs": FANS}, "too large"),
    ({"type": "array", "minItems": 10**9}, "too large"),
    ({"type": "array", "minItems": 3, "maxItems": 2}, "3 is more than maxItems, 2"),
    ({"type": "string", "minLength": 10**9}, "too large"),
    ({"type": "string", "pattern": "(a{1000}){1000}"}, "too large"),
    ({"type": "string", "pattern": "^a$", "minLength": 3}, "no text of this form"),
    ({"type": "string", "pattern": "[^a]" * 2000}, "too large"),
    ({"enum": list(range(100_000))}, "too large"),
    ({"allOf": [{"enum": list(range(20_000))}, {"enum": list(range(100, 20_100))}]}, "too large"),
    ({"allOf": [{"properties": {f"p{i}": {} for i in range(5000)}}] * 50}, "too many to compare"),
    ({"oneOf": [{"properties": {"k": {"const": i}}, "required": ["k"]} for i in range(900)]}, "too many to compare"),
    ({"properties": {f"p{i}": {"type": "integer"} for i in range(3000)}}, "too large"),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"properties": {c: {"$ref": "#/$defs/n"} for c in "abcdefg"}}}}, "too large"),
    ({"$ref": "#"}, "no text of this form"),
    ({"allOf": [{"$ref": "#"}, {"type": "object"}]}, "contain themselves"),
    ({"type": "integer", "minimum": 5, "maximum": 4}, "no whole number"),
    ({"allOf": [{"type": "string"}, {"type": "null"}]}, "no text of this form"),
    ({"type": "array", "items": [{}] * 100_000}, "is not a schema"),
]  # fmt: skip


def nested(depth: int) -> Any:
    found: Any = True
    for _ in range(depth):
        found = {"type": "array", "items": found}
    return found


def made(schema: Any) -> Any:
    return form_of(SamplingOptions(json_schema=schema), TOKENIZER, VOCABULARY, DEVICE, 500)


def timed(run: Callable[[], Any]) -> None:
    start = time.process_time()
    run()
    assert time.process_time() - start < SECONDS


def test_schemas_that_are_refused() -> None:
    def check(schema: Any, told: str) -> None:
        with pytest.raises(OptionError, match=f"json_schema: .*({told})"):
            timed(lambda: made(schema))

    circle: dict[str, Any] = {"type": "array"}
    circle["items"] = circle
    wide: Any = {}
    for _ in range(40):
        wide = {"anyOf": [wide, wide]}
    deep = [(nested(depth), "nested too deeply") for depth in (201, 900)]
    check_each(check, [*fewer_in_browser(REFUSED, 9), *deep, (circle, "nested too deeply"), (wide, "more than")])


def test_alternatives_keep_what_stands_beside_them() -> None:
    for schema in (
        {"allOf": [{"anyOf": [{"type": "integer"}, {"type": "null"}], "minimum": 3}, {"type": "integer"}]},
        {"allOf": [{"oneOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "integer", "minimum": 3}]},
    ):
        found = compile_expression(Schema(schema).expression())
        assert found.matches(b"3") and not found.matches(b"2") and not found.matches(b"null")


JOINED = {"allOf": [PERSON, {"properties": {"age": {"minimum": 3}}}, {"anyOf": [{"type": "object"}, {"type": "null"}]}]}


def test_damaged_schemas() -> None:
    accepted = 0

    def check(_: str, schema: Any) -> None:
        nonlocal accepted
        try:
            timed(lambda: made(schema))
        except PyappError as error:
            assert isinstance(error, OptionError) and len(error.message) < 500
            accepted += "can be written with the model's tokens" in error.message  # the tokens have no brackets

    for number, whole in enumerate((PERSON, JOINED)):
        damaged = enumerate(hostile_documents(whole, 40, seed=number))
        check_each(check, [(f"{number}, {place}", schema) for place, schema in damaged])
    assert accepted  # most damage is refused


FEW_STATES = [
    "(|a)+" * 100, "(a|ab|abc|abcd)*" * 60, "(a*)*" * 50, "(" * 90 + "a*" + ")*" * 90, "[01]*1[01]{9}",
    "((){100}){100}",
]  # fmt: skip
TOO_MANY_STATES = [
    "(a{1000}){1000}", ".{0,9999}", "a{0,4294967294}", "(){1000000000}", "[01]*1[01]{20}", "(a?){2900}", "(|a)+" * 1000,
]  # fmt: skip
NOT_REGULAR = [
    "(?u)a", "(?L)a", r"\p{L}", "(?(1)a|b)", "\\", "a**", "(?P<a>x)(?P=a)", r"(a)\1", "(?=a)b", "(?<!a)b", r"a\b",
    "x" * 10_001, "(" * 3000 + "a" + ")" * 3000, "(?:" * 2000 + "a" + ")" * 2000, "a{99999999999999999999}",
    "((a)*" * 900,
]  # fmt: skip


def automaton(pattern: str) -> Automaton:
    return compile_expression(Pattern(pattern, "regex").whole(), "regex")


def test_large_patterns() -> None:
    """An automaton, soon, or an error: a form of few states can need large sets of them, which fill the memory."""

    def check(pattern: str, refusal: str | None) -> None:
        if refusal is None:
            timed(lambda: automaton(pattern))
            return
        with pytest.raises(OptionError, match=refusal) as caught:
            timed(lambda: automaton(pattern))
        assert caught.value.where == "regex" and len(caught.value.message) < 300

    refused = [(pattern, "too large") for pattern in TOO_MANY_STATES] + [
        (pattern, "not supported|not a regular expression") for pattern in NOT_REGULAR
    ]
    check_each(check, fewer_in_browser([*((pattern, None) for pattern in FEW_STATES), *refused], 9))
