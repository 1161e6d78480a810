"""Text of a given form: automata, regular expressions, JSON Schema, and texts of models that know nothing of them."""

from __future__ import annotations

import json
import random
import re
import time
from typing import Any

import pytest

from pyapp.engine.device import cpu
from pyapp.errors import OptionError
from pyapp.events import Done, Event, Token
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.structured_output.automata import Automaton, characters, compile_expression, literal, others
from pyapp.text.structured_output.json_forms import Schema
from pyapp.text.structured_output.json_schemas import moved
from pyapp.text.structured_output.structured import CompiledForm, TextForm, Vocabulary
from pyapp.text.tokenization.patterns import Pattern
from tests.text.small_model import write_model
from tests.text.table_model import TableModel, TableTokenizer
from tests.together import IN_BROWSER, fewer_in_browser

TOKENIZER: Any = TableTokenizer()

PERSON = {
    "title": "A person",
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b", 3, None]}, "minItems": 1, "maxItems": 3},
        "home": {"$ref": "#/$defs/place"},
        "score": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    },
    "required": ["name", "age", "home"],
    "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}}},
}


TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"}, "left": {"$ref": "#/$defs/node"}, "right": {"$ref": "#/$defs/node"},
            },
            "required": ["value"],
        }
    },
}  # fmt: skip


def automaton(schema: Any) -> Automaton:
    return compile_expression(Schema(schema).expression())


def fits(schema: Any, value: Any) -> bool:
    """Whether a value fits a schema: a check of its own of the keywords that these tests use."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        return fits(PERSON["$defs"]["place"], value)  # type: ignore[index]
    if "anyOf" in schema:
        return any(fits(option, value) for option in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    match schema.get("type"):
        case "object":
            known = schema.get("properties", {})
            return (
                isinstance(value, dict)
                and all(name in value for name in schema.get("required", []))
                and all(name in known and fits(known[name], inner) for name, inner in value.items())
            )
        case "array":
            count = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1 << 30)
            return isinstance(value, list) and count and all(fits(schema["items"], item) for item in value)
        case "string":
            length = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 30)
            return isinstance(value, str) and length and re.search(schema.get("pattern", ""), value) is not None
        case "integer":
            return isinstance(value, int) and schema.get("minimum", value) <= value <= schema.get("maximum", value)
        case "number":
            return isinstance(value, int | float)
        case "null":
            return value is None
    raise AssertionError(schema)


# -- characters and patterns


@pytest.mark.parametrize(
    "ranges", [[(0, 0x10FFFF)], [(0x41, 0x5A)], [(0x7F, 0x80)], [(0x7FF, 0x800)], [(0xD000, 0xE001)],
    [(0x3A9, 0x1F600)],
               [(0xFFFF, 0x10000), (0x20, 0x20)], [(0x10FFFF, 0x10FFFF)]], ids=str,
)  # fmt: skip
def test_characters_are_utf8(ranges: list[tuple[int, int]]) -> None:
    found = compile_expression(characters(ranges))
    edges = {edge + step for low, high in ranges for edge in (low, high) for step in (-1, 0, 1)}
    for code in sorted(edges | {0x24, 0xE9, 0x20AC, 0x1F600, 0xD7FF, 0xE000}):
        if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
            inside = any(low <= code <= high for low, high in ranges)
            assert found.matches(chr(code).encode()) == inside, hex(code)
    for wrong in (b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe2\x82"):  # no UTF-8
        assert not found.matches(wrong)
    assert others(others(ranges)) == sorted(ranges) or ranges[0][0] == 0xFFFF


PATTERNS = [
    r"[a-c]+|x{2,3}", r"(ab?)*c", r"\d{2}-\w\s[^\n]", r"^(yes|no)$", r"^a|b$", r"é+[α-ω]?", r"(a|b)*?abb", r"", r".{3}",
    r"[^\d\s]\D\S", r"(?:a{0,2}b){2}", r"\x41\u00e9\.", r"a{3,}", "yes|yeah|no",
]  # fmt: skip
WORDS = [
    "", "a", "b", "c", "ab", "xx", "xxx", "xxxx", "abac", "12-a b", "yes", "no", "nope", "yeah", "é", "ééω", "abb",
    "aabb",
    "x\ny", "ABC", "bb", "aabaab", "Aé.", "aaa", "aaaaa", "x12", "😀é.", "ab\n",
]  # fmt: skip


@pytest.mark.parametrize("pattern", fewer_in_browser(PATTERNS))
def test_patterns_match_what_python_matches(pattern: str) -> None:
    found = compile_expression(Pattern(pattern, "regex").whole())
    inside = compile_expression(Pattern(pattern, "regex").inside())
    stricter = pattern.replace("$", r"\Z")  # Python's $ also matches before a last line break
    for word in WORDS:
        whole = re.fullmatch(stricter, word, re.ASCII) is not None
        assert found.matches(word.encode()) == whole, word
        assert inside.matches(word.encode()) == (re.search(stricter, word, re.ASCII) is not None), word


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(a)\1", "has groupref"), (r"a(?=b)", "has assert"), (r"\bword", "in the middle"), (r"a^b", "in the middle"),
        (r"(?i)a", "sets flags"), (r"(?i:a)", "sets flags"), ("(", "not a regular expression"), ("a" * 10_001,
        "10,001 char"),
        (r"((((a{99}){99}){99}){99})", "too large"), (r"(a|b)*a(a|b){30}", "too large"),
        ("(" * 5000 + ")" * 5000, "not a regular expression|too large|nested"), ("a{4294967294}", "too large"),
    ],
)  # fmt: skip
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    start = time.perf_counter()
    with pytest.raises(OptionError, match=f"regex.*({message})"):
        compile_expression(Pattern(pattern, "regex").whole(), "regex")
    assert time.perf_counter() - start < 20


# -- JSON Schema

VALUES: list[tuple[Any, list[str], list[str]]] = [
    ({"type": "integer"}, ["0", "-7", "123456789012345"], ["01", "1.0", "-", "1234567890123456"]),
    ({"type": "integer", "minimum": -12, "maximum": 345}, [str(n) for n in range(-12, 346)],
         ["-13", "346", "1000", "00"]),
    ({"type": "integer", "exclusiveMinimum": 8, "exclusiveMaximum": 11}, ["9", "10"], ["8", "11", "90"]),
    ({"type": "integer", "minimum": 1.5}, ["2", "10", "999999999999999"], ["1", "0", "-3"]),
    ({"type": "number", "minimum": 0}, ["0", "1.25", "3e-7", "10E+2"], ["-1", ".5", "1.", "1e", "1e999"]),
    ({"type": "boolean"}, ["true", "false"], ["True", "null", "tru"]),
    ({"type": ["null", "boolean"]}, ["null", "true"], ["0"]),
    ({"const": {"a": [1, "é"]}}, ['{"a": [1, "é"]}'], ["{}"]),
    ({"type": "integer", "enum": [1, "a", 2.0, True]}, ["1", "2.0"], ['"a"', "true"]),
    ({"type": "string"}, ['""', '"é😀"', r'"\n\"\\\u00e9\ud83d\ude00"'], ['"', '"\n"', r'"\x"', r'"\ud83d"', "'a'"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', r'"a\n\/"', '"😀😀"'], ['"a"', '"abcd"']),
    ({"type": "string", "pattern": "^a[\"\\\\\\n]b"}, [r'"a\"b"', r'"a\\b.."', r'"a\nbé"'], ['"a"b"', r'"xa\nb"']),
    ({"type": "string", "format": "date"}, ['"2026-02-28"', '"1999-12-31"'], ['"2026-02-30"', '"2026-13-01"']),
    ({"type": "string", "format": "date-time"}, ['"2026-02-28T23:59:59Z"'], ['"2026-02-28"', '"2026-02-28T24:00:00Z"']),
    ({"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4}, ['"ab"', '"abcd"'],
     ['"a"', '"abcde"', '"aB"', '""']),
    ({"type": "string", "pattern": "b[\"\\n]", "maxLength": 3}, [r'"b\""', r'"xb\n"'], ['"b"', r'"xxb\n"', '"xx"']),
    ({"type": "string", "format": "date", "pattern": "^2026"}, ['"2026-02-28"'], ['"2025-02-28"', '"2026"']),
    ({"type": "string", "pattern": "^é+$", "maxLength": 2}, ['"é"', '"éé"'], ['"ééé"', '""']),
    ({"type": "string", "format": "email"}, ['"ab.c@mail.example.org"'], ['"ab"', '"a@b"', '"@a.org"', '"a@b.c"']),
    ({"type": "string", "format": "hostname"}, ['"a-b.example.org"'], ['"-a.org"', '"a..org"']),
    ({"type": "string", "format": "ipv6"}, ['"fe80:0:0:0:1:2:3:abcd"'], ['"1:2:3"', '"fe80:0:0:0:1:2:3:abcde"']),
    ({"type": "string", "format": "uri"}, ['"https://example.org"', '"http://a.org:80/x/y.html?q=1"'], ['"a.org"']),
    ({"type": "string", "format": "duration"}, ['"P3D"', '"PT4H30M"', '"P1DT20S"', '"P2W"'], ['"P"', '"PT"', '"3D"']),
    ({"type": "integer", "format": "int32", "x-order": 1, "uniqueItems": False, "maximum": 3}, ["3", "-5"], ["4"]),
    ({"anyOf": [{"type": "null"}, {"type": "string"}], "type": "null"}, ["null"], ['"a"']),
    ({"$ref": "#/$defs/a", "minimum": 2, "$defs": {"a": {"type": "integer", "maximum": 3}}}, ["2", "3"], ["1", "4"]),
    ({"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {"const": 2}}}, ["2"], ["1"]),  # as addresses spell names
    ({"oneOf": [{"properties": {"k": {"const": kind}}, "required": ["k"]} for kind in "ab"], "type": "object",
      "discriminator": {"propertyName": "k"}}, ['{"k": "a"}', '{"k": "b"}'], ["{}", '{"k": "c"}']),
    ({"type": "array", "items": {"type": "null"}}, ["[]", "[null]", "[null, null,null]"],
         ["[null,]", "[,]", "[null,  null]"]),
    ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, ["[true, true]", "[true,true,false]"],
         ["[]", "[true]"]),
    ({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False}, ["[]", "[1]", "[1, 2]"],
         ["[2]", "[1,2,3]"]),
    ({"type": "array", "prefixItems": [{"const": 1}], "items": {"const": 0}, "minItems": 2}, ["[1,0]", "[1,0,0]"],
         ["[1]", "[0]"]),
    ({"type": "array", "items": {"const": 1}, "maxItems": 0}, ["[]"], ["[1]"]),
    ({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "required": ["b"]},
     ['{"b": 2}', '{"a":1,"b":2}', '{"b":2, "c": 3}', '{"a": 1, "b": 2, "c": 3}'],
     ["{}", '{"a":1}', '{"b":2,"a":1}', '{,"b":2}', '{"b":2,}', '{"b":2,"d":4}']),
    ({"properties": {"a": {"const": 1}, "b": {"const": 2}}}, ["{}", '{"a":1}', '{"b":2}', '{"a":1, "b":2}'],
         ['{"a":1 "b":2}']),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, ["{}", '{"x": 1, "y\\n": -2}'], ['{"x": "1"}']),
    ({"type": "object", "additionalProperties": False}, ["{}"], ['{"a": 1}']),
    ({"anyOf": [{"const": "a"}, {"type": "null"}]}, ['"a"', "null"], ['"b"']),
    ({"allOf": [{"type": "null"}]}, ["null"], ["1"]),
    ({"type": "integer", "multipleOf": 5, "minimum": -7}, ["-5", "0", "25", "123456789012345"], ["-10", "7", "1"]),
    ({"type": "integer", "multipleOf": 7, "minimum": 8, "exclusiveMaximum": 21}, ["14"], ["7", "21", "15"]),
    ({"type": "number", "minimum": 0, "maximum": 1}, ["0", "0.25", "1", "1.00"], ["-0.1", "1.01", "2", "1e0"]),
    ({"type": "number", "exclusiveMinimum": -1.5, "exclusiveMaximum": 0.5}, ["-1.49", "-1", "-0.5", "0.49", "0"],
         ["-1.5", "-2", "0.5", "0.50", "1"]),
    ({"type": "number", "multipleOf": 0.01, "maximum": 9.5}, ["9.5", "-123.25", "7"], ["9.51", "1.255", "10"]),
    ({"type": "object", "required": ["a"]}, ['{"a": [1]}'], ["{}", '{"b": 1}']),
    ({"oneOf": [{"type": "null"}, {"type": "integer"}, {"enum": ["a"]}]}, ["null", "7", '"a"'], ['"b"', "true"]),
    ({"oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}], "$defs": {
        name: {"type": "object", "properties": {"kind": {"const": name}, "age": {"type": "integer"}},
               "required": ["kind"]} for name in ("cat", "dog")}},
     ['{"kind": "cat"}', '{"kind": "dog", "age": 3}'], ["{}", '{"kind": "cow"}']),
    ({"allOf": [{"type": "integer", "minimum": 3}, {"type": ["number", "null"], "maximum": 5}]}, ["3", "4", "5"],
         ["2", "6", "null", "3.5"]),
    ({"allOf": [{"$ref": "#/$defs/named"}, {"properties": {"size": {"const": 1}}, "required": ["size"]}],
      "$defs": {"named": {"type": "object", "properties": {"name": {"enum": ["x"]}}, "required": ["name"]}}},
     ['{"name": "x", "size": 1}'], ['{"name": "x"}', '{"size": 1}']),
    ({"type": "object", "allOf": [{"properties": {"a": {"minLength": 1}}, "additionalProperties": False},
                                  {"properties": {"a": {"type": "string", "maxLength": 1}, "b": {}}}]},
     ["{}", '{"a": "z"}'], ['{"a": ""}', '{"a": "zz"}', '{"b": 1}']),
    ({"allOf": [{"enum": [1, 2, "a"]}, {"enum": ["a", 2.0]}]}, ["2", '"a"'], ["1"]),
    ({"allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "string", "maxLength": 1}]}, ['"a"'],
         ["1", '"ab"']),
    (TREE, ['{"value": 1}', '{"value": 1, "left": {"value": 2, "right": {"value": 3}}}',
            json.dumps({"value": 1, "left": {"value": 2, "left": {"value": 3, "left": {"value": 4}}}})],
     ["{}", json.dumps({"value": 1, "left": {"value": 2, "left": {"value": 3, "left": {"value": 4, "left": None}}}})]),
    ({"type": "array", "items": {"$ref": "#"}}, ["[]", "[[], [[]]]", "[[[[]]]]"], ["[1]", "[[[[[[]]]]]]"]),
    ({"type": "array", "items": {"$ref": "#/$defs/c"}, "uniqueItems": True, "minItems": 1,
      "$defs": {"c": {"enum": [1, 12, "a"]}}},
     ["[1]", '["a", 12,1]', "[12, 1]", '[1, 12, "a"]'], ["[]", "[1, 1]", "[1, ]", '[1,12,"a",1]', "[1,12,12]"]),
    ({"type": "array", "items": {"enum": [*"abcdefghi"]}, "uniqueItems": True, "maxItems": 2},
     ["[]", '["a"]', '["c", "i"]'], ['["a","a"]', '["a","b","c"]']),
    ({"type": "array", "items": {"type": "string", "maxLength": 1}, "uniqueItems": True, "maxItems": 1},
     ["[]", '["x"]'], ['["x","x"]']),
    ({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "minProperties": 2},
     ['{"a":1,"b":2}', '{"b":2, "c":3}', '{"a":1,"b":2,"c":3}'], ["{}", '{"c":3}']),
    ({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}, "maxProperties": 2, "required": ["c"]},
     ['{"c":3}', '{"a":1,"c":3}'], ["{}", '{"a":1,"b":2}', '{"a":1,"b":2,"c":3}']),
    ({"properties": {"a": {}}, "maxProperties": 0}, ["{}"], ['{"a":1}']),
    ({"type": "object", "additionalProperties": {"const": 1}, "minProperties": 1, "maxProperties": 2},
     ['{"x":1}', '{"x":1,"y":1}'], ["{}", '{"x":1,"y":1,"z":1}']),
    ({"type": "object", "patternProperties": {"^x_": {"const": 1}}, "additionalProperties": False},
     ["{}", '{"x_":1}', '{"x_a":1, "x_b":1}'], ['{"x":1}', '{"y_x_":1}', '{"x_a":2}']),
    ({"properties": {"x_a": {"type": "integer"}, "n": {"const": 0}}, "required": ["x_r"], "patternProperties":
      {"^x_": {"enum": [1, 2, "s"]}, "z$": {"const": 2}}, "additionalProperties": False},
     ['{"x_a":1,"x_r":"s"}', '{"x_r":1,"x_q":"s","yz":2}', '{"n":0,"x_r":2}'],
     ['{"x_a":"s","x_r":1}', '{"n":0}', '{"x_r":3}', '{"x_r":1,"x_a":"s"}', '{"x_r":1,"x_z":"s"}']),
    ({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "integer"}},
     ["{}", '{"a":1}', '{"a":1,"b":2}'], ['{"c":1}', '{"a":"x"}']),
    ({"type": "object", "propertyNames": {"pattern": "^[a-z]$"}, "additionalProperties": {"const": 1}},
     ["{}", '{"a":1,"b":1}'], ['{"aa":1}', '{"a":2}']),
    ({"type": "string", "not": {"enum": ["a", "b\n", 3]}}, ['""', '"ab"', '"c"', r'"\u0062"'],
     ['"a"', r'"\u0061"', r'"b\n"', r'"b\u000A"', r'"\u0062\n"']),
    ({"type": "integer", "minimum": -1, "maximum": 3, "not": {"const": 2.0}}, ["-1", "0", "1", "3"], ["2", "4"]),
    ({"type": "integer", "not": {"const": 0}}, ["1", "10", "-10"], ["0", "-0"]),
    ({"enum": ["a", "b", None], "not": {"enum": ["b"]}}, ['"a"', "null"], ['"b"']),
    ({"not": {"const": None}}, ["1", '"x"', "[null]", '{"a":null}', "true"], ["null"]),
    ({"type": ["string", "null", "boolean"], "maxLength": 1, "not": {"type": "null"}}, ['"a"', "true"],
     ["null", '"ab"']),
    ({"type": "string", "format": "email", "maxLength": 254}, ['"ab.c@mail.example.org"'], ['"ab"']),
    ({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083}, ['"https://a.org/x/y.html?q=1"'], ['"a"']),
    ({"type": "string", "format": "uri", "maxLength": 41}, [f'"https://a.org/{5 * "x"}"'],
     [f'"https://a.org/{28 * "x"}"']),
    ({"type": "string", "pattern": "^[^<>]{1,300}$"}, [f'"{300 * "é"}"', r'"\u001f"'], [f'"{301 * "a"}"', '"<"']),
    (True, ['{"a": [1, {"b": [true]}], "c": ""}', "-0.5", "null"], ["{a: 1}", "[[[[[1]]]]]", "nan"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), fewer_in_browser(VALUES), ids=lambda value: json.dumps(value)[:60])
def test_schemas(schema: Any, good: list[str], bad: list[str]) -> None:
    found = automaton(schema)
    for text in good:
        json.loads(text)
        assert found.matches(text.encode()), text
    for text in bad:
        assert not found.matches(text.encode()), text


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array", "uniqueItems": True}, "#/uniqueItems: .* for a list of values only. Give items an enum"),
        ({"type": "array", "items": {"enum": [1, 1.0]}, "uniqueItems": True, "minItems": 2}, "2 different items"),
        (
            {"type": "object", "properties": {"a": {"type": "string", "multipleOf": 2}}},
            "#/properties/a: .*'multipleOf'",
        ),
        ({"type": "number", "multipleOf": 0.3}, "#/multipleOf: must be a whole number from 1, or 0.1"),
        ({"type": "integer", "multipleOf": 0.5}, "#/multipleOf: must be a whole number from 1"),
        ({"type": "integer", "multipleOf": 3000}, "too large"),
        (
            {"oneOf": [{"type": "null"}, {"type": ["null", "string"]}]},
            "#/oneOf: 0 and 1 may both fit a value. Give anyOf",
        ),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "0 and 1 may both fit"),
        ({"oneOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"a": {"const": 2}}}]}, "may both fit"),
        ({"not": {"minimum": 3}}, "#/not: only const, enum or type .* Say what may come"),
        ({"type": "number", "not": {"const": 3}}, "#/not: values of type number cannot be left out"),
        ({"anyOf": [{"type": "string"}], "not": {"const": 3}}, "#/not: not supported beside anyOf"),
        ({"type": "object", "minProperties": 2}, "#/minProperties: more than 1 .* Name the properties"),
        ({"type": "object", "patternProperties": {"(?=a)": {}}}, "#/patternProperties: .*assert"),
        ({"if": {"type": "string"}}, "'if' is not supported here. Give anyOf"),
        ({"allOf": [{"pattern": "a"}, {"pattern": "b"}]}, "'pattern' is in several schemas at once"),
        ({"allOf": [{"enum": [1]}, {"minimum": 3}]}, "'minimum' beside const and enum"),
        ({"allOf": [{"$ref": "#"}, {"type": "null"}]}, "contain themselves"),
        ({"type": "string", "minimum": 3}, "'minimum' is not supported here"),
        ({"type": "array", "contains": {}}, "'contains' is not supported here. Put the item first"),
        ({"$ref": "#/$defs/b"}, "'#/\\$defs/b' is missing"),
        ({"$ref": "http://x/y"}, "does not point into this schema"),
        ({"type": "strin"}, "unknown type 'strin'"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no whole number"),
        ({"type": "number", "minimum": 1e16}, "at most 15 digits"),
        ({"type": "string", "pattern": "a", "maxLength": 10**6}, "too large"),
        ({"type": "string", "pattern": "(?=a)"}, "#/pattern: .*assert"),
        ({"type": "string", "format": "emoji"}, "unknown format 'emoji'. Known are date"),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "'a' is not among the properties"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "3 is more than maxItems"),
        ({"type": "string", "maxLength": 10**9}, "too large"),
        ({"type": "array", "items": {"const": 1}, "maxItems": 10**9}, "too large"),
        ({"enum": []}, "a list that is not empty"),
        (7, "7 is not a schema"),
    ],
    ids=str,
)
def test_schemas_that_are_refused(schema: Any, message: str) -> None:
    with pytest.raises(OptionError, match=f"json_schema: .*{message}|json_schema.*{message}"):
        compile_expression(Schema(schema).expression(), "json_schema")


def test_a_schema_that_no_value_fits() -> None:
    """A reference that is nothing but itself, and one that always contains itself."""
    endless = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    for schema in (
        {"$ref": "#"},
        endless,
        False,
        {"anyOf": [{"$ref": "#"}] * 2},
        {"allOf": [{"type": "null"}, {"type": "string"}]},
    ):
        options = SamplingOptions(json_schema=schema)
        with pytest.raises(OptionError, match="json_schema: no text of this form can be written"):
            list(generate(Session(TableModel()), TOKENIZER, "a", options))


def test_schemas_of_many_references_end_soon() -> None:
    """Twenty references in each value: refused for its size, before memory or patience runs out."""
    wide = {"type": "object", "properties": {f"p{i}": {"$ref": "#"} for i in range(20)}}
    start = time.perf_counter()
    with pytest.raises(OptionError, match="too large"):
        compile_expression(Schema(wide).expression(), "json_schema")
    assert time.perf_counter() - start < 20


@pytest.mark.native_only
def test_schemas_of_many_strings_end_soon() -> None:
    """Each string is read in no time, or has an automaton of its own, of which only so many fit."""
    for one in ({"type": "string"}, {"type": "string", "format": "uri", "maxLength": 400}):
        schema = {"type": "object", "properties": {f"p{i}": one for i in range(3000)}}
        start = time.process_time()
        with pytest.raises(OptionError, match="too large"):
            compile_expression(Schema(schema).expression(), "json_schema")
        assert time.process_time() - start < 8  # 3 s natively; a minute and more before


@pytest.mark.native_only  # the time is that of a native Python
@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a.*b.*c.*d.*e.*f", "minLength": 50, "maxLength": 300},
        {"pattern": "a.*b.*c.*d.*e.*f", "format": "uri", "maxLength": 200},
        {"pattern": "[\\u0100-\\uffff]{100}", "minLength": 50, "maxLength": 300},
        {"pattern": "(a|b|ab)*c(a|b){9}", "format": "uri"},
    ],
    ids=str,
)
def test_hostile_patterns_with_lengths_end_soon(schema: Any) -> None:
    start = time.process_time()
    try:
        compile_expression(Schema({"type": "string", **schema}).expression(), "json_schema")
    except OptionError as error:
        assert "too large" in str(error)
    assert time.process_time() - start < (20 if IN_BROWSER else 1.5)  # 0.4 s natively


# -- texts of models


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from pyapp.models import load_model

    return load_model(write_model(tmp_path_factory.mktemp("model"), max_seq_len=600))


def written(events: list[Event]) -> tuple[str, str, int]:
    """Text, reason, and number of tokens."""
    assert isinstance(events[-1], Done)
    text = "".join(event.text for event in events if isinstance(event, Token))
    return text, events[-1].reason, events[-1].results["new_tokens"]


def test_a_model_that_knows_nothing_writes_what_fits(small: Any) -> None:
    """Random weights, many seeds, and lengths that end the text early."""
    session, reasons = Session(small.model), set()
    for seed in range(12):
        most = [None, 70, 100, 200][seed % 4]
        options = SamplingOptions(temperature=1.5, top_p=1, seed=seed, max_new_tokens=most, json_schema=PERSON)
        text, reason, count = written(list(generate(session, small.tokenizer, "Once", options)))
        assert fits(PERSON, json.loads(text)), text
        reasons.add(reason)
        assert count <= (most or 600)
    assert reasons <= {"stop", "length"}
    options = SamplingOptions(json_schema=PERSON, max_new_tokens=15)
    with pytest.raises(OptionError, match=r"max_new_tokens: the form needs up to \d+ tokens, there is room for 15"):
        list(generate(session, small.tokenizer, "", options))


@pytest.mark.parametrize("seed", range(4))
def test_an_open_form_ends_in_time(seed: int, small: Any) -> None:
    """A string without end is closed by the last token; an empty prompt drops no space."""
    options = SamplingOptions(temperature=1, top_p=1, seed=seed, max_new_tokens=12, regex='"[a-z ]*"')
    text, _, count = written(list(generate(Session(small.model), small.tokenizer, "", options)))
    assert re.fullmatch('"[a-z ]*"', text) and count <= 12


def test_choices() -> None:
    found = set()
    for seed in range(30):
        options = SamplingOptions(temperature=1, top_p=1, seed=seed, choice=("ab", "abba", "cafe"))
        text, reason, _ = written(list(generate(Session(TableModel()), TOKENIZER, "d", options)))
        found.add(text)
        assert reason == "stop"
    assert found == {"ab", "abba", "cafe"}


def test_speculation_and_penalties_keep_the_form(small: Any) -> None:
    settings: dict[str, Any] = {
        "temperature": 1.0, "top_p": 1.0, "seed": 3, "max_new_tokens": 60, "frequency_penalty": 1.0,
        "no_repeat_ngram": 4,
        "regex": "(one|two|three|, )+",
    }  # fmt: skip
    plain, fast = (
        written(list(generate(Session(small.model), small.tokenizer, "one two", SamplingOptions(**settings, lookup=n))))
        for n in (0, 4)
    )
    assert plain == fast and re.fullmatch(settings["regex"], plain[0])


def test_what_no_token_can_write() -> None:
    options = SamplingOptions(choice=("Z",))
    with pytest.raises(OptionError, match="choice: no text of this form can be written with the model's tokens"):
        list(generate(Session(TableModel()), TOKENIZER, "a", options))


def test_masks_are_what_the_automaton_reads(small: Any) -> None:
    """Every token, in states along random texts: allowed if and only if the automaton reads it and the text can end."""
    words = Vocabulary(small.tokenizer, small.model.config.vocab_size, cpu)
    compiled = CompiledForm(automaton(PERSON), words, [2], "json_schema")
    chance = random.Random(5)
    for _ in range(4):
        state, form = 0, TextForm(compiled)
        for _ in range(25):
            mask = compiled.mask(state, None).tolist()
            budget = chance.choice([5, 30, 80])
            tight = compiled.mask(state, budget).tolist()
            for token, piece in enumerate(words.pieces):
                end = compiled.automaton.run(piece, state) if piece else -1
                least = compiled.distance[end] if end >= 0 else -1
                stops = token == 2 and compiled.automaton.accepting[state]
                assert mask[token] == (least >= 0 or stops)
                assert tight[token] == (0 <= least <= budget - 1 or stops)
            allowed = [token for token, may in enumerate(mask) if may and words.pieces[token]]
            if not allowed:
                assert form.complete
                break
            token = chance.choice(allowed)
            state = compiled.automaton.run(words.pieces[token], state)
            form.accept(token)


@pytest.mark.native_only
def test_the_cost_of_a_large_vocabulary() -> None:
    """A mask of 128,000 tokens takes some milliseconds (printed with -s); the limit leaves room for slow machines."""

    class Large:
        vocab_size = 128_000

        def token_bytes(self, token: int) -> bytes:
            return bytes([token % 256]) if token < 256 else f" {token:x}word"[: 2 + token % 9].encode()

    words = Vocabulary(Large(), 128_000, cpu)  # type: ignore[arg-type]
    compiled = CompiledForm(automaton(True), words, [], "json_schema")
    inside = compiled.automaton.run(b'{"key": "val')  # the state in which the most tokens fit
    start = time.perf_counter()
    mask = compiled.mask(inside, None)
    spent = time.perf_counter() - start
    print(f"\na mask of 128,000 tokens: {spent * 1000:.1f} ms")
    assert mask.sum().item() > 100_000 and spent < 0.5
    assert compiled.mask(inside, None) is mask


def test_a_form_of_its_own() -> None:
    found = compile_expression(literal("é"))
    assert found.matches("é".encode()) and not found.matches(b"e")


def test_a_schema_that_becomes_a_part_keeps_what_its_references_mean() -> None:
    names: Any = {"$ref": {"$ref": "#/$defs/const"}, "const": {"items": [{"$ref": "#"}], "const": {"$ref": "#/a"}}}
    found = moved({"properties": names, "$defs": {"const": {"$ref": "other.json#/b"}}}, "#/c")
    expected: Any = {
        "$ref": {"$ref": "#/c/$defs/const"},
        "const": {"items": [{"$ref": "#/c"}], "const": {"$ref": "#/a"}},
    }
    assert found == {"properties": expected, "$defs": {"const": {"$ref": "other.json#/b"}}}
