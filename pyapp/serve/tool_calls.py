"""Calls of tools: the form of forced calls, and calls in what a model writes by itself.

Models write calls as JSON objects with `name` and `arguments` (or `parameters`): between <tool_call> tags (Hermes,
Qwen, SmolLM), or as the whole answer, one (Llama 3) or an array of them (Mistral).
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable
from typing import Any

from pyapp.errors import OptionError, PyappError
from pyapp.formats.safe_json import parse_json
from pyapp.text.structured_output.json_schemas import moved

from .fields import Fields

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_TOOLS = 128
WHOLE = re.compile(r"\s*(\{|\[\s*(\{|$))")  # how an answer begins that may be calls as a whole
# What an error says of the arguments in a forced call's schema: which of several calls, the place in them, and why.
IN_CALL = re.compile(r"#(?:/anyOf/(\d+))?/properties/arguments(?=[/:])(.*)", re.DOTALL)
# The beginning of a forced call up to its arguments: the form gives its parts this order.
HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\S)')


def joined(calls: list[dict[str, Any]], deltas: Iterable[Any]) -> None:
    """Adds the pieces of calls that a stream gives to `calls`: each has the `index` of its call; what begins a call has
    its id and name, and the others go on with its arguments.
    """
    for delta in deltas:
        index = delta.get("index") if isinstance(delta, dict) else None
        if type(index) is not int or not 0 <= index <= len(calls):
            continue
        if index == len(calls):
            calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
        call, function = calls[index], delta.get("function")
        call["id"] = delta.get("id") or call["id"]
        for name in ("name", "arguments") if isinstance(function, dict) else ():
            call["function"][name] += function.get(name) or ""


def new_id() -> str:
    return f"call_{secrets.token_hex(12)}"


class Tools:
    """The tools of a request and how the model must use them: `choice` is "none", "auto", "required" or a name.
    `several`: an answer may have more than one call. `flat`: a tool and a choice have what they name in themselves, as
    in OpenAI's Responses, not in `function` and `allowed_tools`.
    """

    def __init__(self, fields: Fields, flat: bool = False) -> None:
        given: list[Any] = fields.array("tools") or []
        self._flat = flat
        self.schemas: dict[str, Any] = {}
        if len(given) > MOST_TOOLS:
            raise fields.wrong("tools", f"has {len(given)} tools; {MOST_TOOLS} are allowed")
        self.tools: list[dict[str, Any]] = (
            [self._nested(fields, f"tools[{index}]", tool) for index, tool in enumerate(given)] if flat else given
        )
        for index, tool in enumerate(self.tools):
            at = f"tools[{index}]"
            function = tool.get("function") if isinstance(tool, dict) else None
            if not isinstance(function, dict) or tool.get("type", "function") != "function":
                raise fields.wrong(at, 'must be {"type": "function", "function": {…}}', "invalid_type")
            name = function.get("name")
            if not isinstance(name, str) or not name:
                raise fields.wrong(f"{at}.function.name", "must be a string", "invalid_type")
            schema = function.get("parameters") or {"type": "object", "properties": {}}
            if not isinstance(schema, dict):
                raise fields.wrong(f"{at}.function.parameters", "must be a JSON schema", "invalid_type")
            self.schemas[name] = schema
        self._places = {tool["function"]["name"]: index for index, tool in reversed([*enumerate(self.tools)])}
        self.choice = self._choice(fields)
        self.several = fields.flag("parallel_tool_calls", True)

    @staticmethod
    def _nested(fields: Fields, at: str, tool: Any) -> dict[str, Any]:
        """A flat tool in the form that templates read."""
        if not isinstance(tool, dict):
            raise fields.wrong(at, "must be an object", "invalid_type")
        inner = Fields(tool, at)
        if inner.text("type") != "function":
            raise inner.wrong(
                "type", f"the server has no tools of its own, such as {tool.get('type')!r:.40}: give functions",
                "unsupported_parameter",
            )  # fmt: skip
        for name in ("defer_loading", "async", "allowed_callers"):
            if inner.any(name):
                raise inner.wrong(name, "is not supported: every tool is shown to the model", "unsupported_parameter")
        function = {"name": inner.text("name"), "description": inner.text("description")}
        function["parameters"] = inner.mapping("parameters")
        inner.end(("strict", "output_schema"))
        if not function["name"]:
            raise inner.missing("name")
        return {"type": "function", "function": {key: value for key, value in function.items() if value is not None}}

    def _choice(self, fields: Fields) -> str:
        value = fields.any("tool_choice", "auto" if self.tools else "none")
        if isinstance(value, dict) and value.get("type") == "allowed_tools":
            value = self._allow(fields, value if self._flat else value.get("allowed_tools"))
        if isinstance(value, dict):
            return f"={self._named(fields, 'tool_choice', value)}"
        if isinstance(value, str) and value in self.schemas and value not in ("none", "auto", "required"):  # TGI's form
            return f"={value}"
        if value not in ("none", "auto", "required"):
            raise fields.wrong("tool_choice", 'must be "none", "auto", "required", a function or allowed_tools')
        if value == "required" and not self.tools:
            raise fields.wrong("tool_choice", "there are no tools to call")
        return str(value)

    def _named(self, fields: Fields, at: str, choice: Any) -> str:
        """The name in {"type": "function", "function": {"name": …}}, or in {"type": "function", "name": …}."""
        function = choice if self._flat else choice.get("function") if isinstance(choice, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or (self._flat and choice.get("type") != "function"):
            wanted = '"name": …' if self._flat else '"function": {"name": …}'
            raise fields.wrong(at, f'must be {{"type": "function", {wanted}}}', "invalid_type")
        if name not in self.schemas:
            raise fields.wrong(at, f"there is no tool {name!r:.60}")
        return name

    def _allow(self, fields: Fields, allowed: Any) -> Any:
        """Leaves only the tools of OpenAI's {"mode": …, "tools": […]}; returns the mode."""
        at = "tool_choice" if self._flat else "tool_choice.allowed_tools"
        listed = allowed.get("tools") if isinstance(allowed, dict) else None
        if not isinstance(listed, list) or not listed or allowed.get("mode") not in ("auto", "required"):
            raise fields.wrong(at, 'must be {"mode": "auto" or "required", "tools": […]}', "invalid_type")
        names = {self._named(fields, f"{at}.tools[{index}]", tool) for index, tool in enumerate(listed)}
        self.tools = [tool for tool in self.tools if tool["function"]["name"] in names]
        self.schemas = {name: schema for name, schema in self.schemas.items() if name in names}
        return allowed["mode"]

    @property
    def shown(self) -> list[dict[str, Any]] | None:
        """The tools for the chat template."""
        return self.tools if self.tools and self.choice != "none" else None

    @property
    def forced(self) -> bool:
        return self.choice == "required" or self.choice.startswith("=")

    @property
    def _wanted(self) -> list[str]:
        """The tools of which a forced call calls one."""
        return list(self.schemas) if self.choice == "required" else [self.choice[1:]]

    def in_request(self, error: PyappError, parameters: str) -> PyappError:
        """An error in the schema of a forced call, with its place in the request; `parameters`: where a tool has the
        schema of its arguments.
        """
        found = IN_CALL.search(": ".join(filter(None, (error.where, error.what))))
        if found is None:
            return OptionError(error.what, where="tools", hint=error.hint)
        tool = self._places[self._wanted[int(found[1] or 0)]]
        place, _, what = found[2].partition(": ")
        return OptionError(what, where=f"tools[{tool}].{parameters}: #{place}", hint=error.hint)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of a forced call."""
        names = self._wanted
        places = [f"#/anyOf/{index}" if len(names) > 1 else "#" for index in range(len(names))]
        calls = [
            {
                "type": "object", "required": ["name", "arguments"],
                "properties": {
                    "name": {"const": name}, "arguments": moved(self.schemas[name], f"{place}/properties/arguments"),
                },
            }
            for name, place in zip(names, places, strict=True)
        ]  # fmt: skip
        return calls[0] if len(calls) == 1 else {"anyOf": calls}

    def calls(self, text: str) -> list[dict[str, Any]]:
        """The calls that a JSON text is, an object or an array of them, in OpenAI's form; none if it is something else,
        or calls what is not a tool of the request.
        """
        try:
            found = parse_json(text)
        except (ValueError, RecursionError):
            return []
        calls = [self._call(entry) for entry in (found if isinstance(found, list) else [found])]
        return [] if None in calls else [call for call in calls if call is not None]

    def _call(self, found: Any) -> dict[str, Any] | None:
        if not isinstance(found, dict):
            return None
        name = found.get("name")
        arguments = found.get("arguments", found.get("parameters"))
        if not isinstance(name, str) or name not in self.schemas or not isinstance(arguments, dict):
            return None
        written = json.dumps(arguments, ensure_ascii=False)
        return {
            "id": new_id(), "type": "function",
            "function": {"name": name, "arguments": written},
        }  # fmt: skip


class ToolSplitter:
    """Divides an answer that arrives in parts into text and pieces of calls (`joined`): a forced call comes as it is
    written, others when they are complete. What may be the beginning of a call waits.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._held = ""
        self._begun = False  # text was given out
        self._writing = False  # the arguments of a forced call are being written
        self.calls: list[dict[str, Any]] = []

    def push(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """(text, pieces of calls) that are known now."""
        if self._tools.choice == "none":
            return text, []
        self._held += text
        if self._tools.forced:
            return "", self._pieces()
        shown, calls = self._divided()
        return shown, self._told(calls)

    def _told(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Whole calls as pieces; only the first of the answer where there must not be several."""
        if not self._tools.several:
            calls = calls[: 1 - len(self.calls)]
        found = [{"index": len(self.calls) + place, **call} for place, call in enumerate(calls)]
        joined(self.calls, found)
        return found

    def _pieces(self) -> list[dict[str, Any]]:
        """What is new of a forced call. Its last character waits: it ends the whole, and not the arguments."""
        if not self._writing:
            head = HEAD.match(self._held)
            if head is None:
                return []
            self._writing, self._held = True, self._held[head.end() :]
            name = json.loads(head[1])
            begun = {"index": 0, "id": new_id(), "type": "function", "function": {"name": name, "arguments": ""}}
            joined(self.calls, [begun])
            return [begun, *self._pieces()]
        rest = self._held.rstrip()
        ready, self._held = rest[:-1], rest[-1:] + self._held[len(rest) :]
        found = [{"index": 0, "function": {"arguments": ready}}] if ready else []
        joined(self.calls, found)
        return found

    def _divided(self) -> tuple[str, list[dict[str, Any]]]:
        """(text, whole calls) in what waits."""
        if not self._begun and WHOLE.match(self._held):
            return "", []  # the whole answer may be a call
        shown, calls = "", []
        while True:
            start = self._held.find(OPEN)
            if start < 0:
                keep = next((n for n in range(min(len(self._held), len(OPEN) - 1), 0, -1)
                             if OPEN.startswith(self._held[-n:])), 0)  # fmt: skip
                if not self._begun and not self._held.strip():
                    keep = len(self._held)  # white space before a call is not text
                shown += self._held[: len(self._held) - keep]
                self._held = self._held[len(self._held) - keep :]
                break
            end = self._held.find(CLOSE, start)
            if end < 0:
                shown, self._held = shown + self._held[:start].rstrip(), self._held[start:]
                break
            found = self._tools.calls(self._held[start + len(OPEN) : end])
            shown += self._held[:start].strip() if found else self._held[: end + len(CLOSE)]
            self._held = self._held[end + len(CLOSE) :]
            calls += found
        self._begun = self._begun or bool(shown)
        return shown, calls

    def finish(self) -> tuple[str, list[dict[str, Any]]]:
        """What waited when the answer ended."""
        held, self._held = self._held, ""
        if self._writing:  # what is left is the end of the whole, unless a stop string cut it short
            return "", []
        found = self._tools.calls(held.strip().removeprefix(OPEN)) if held else []
        if not found:
            return ("" if self.calls and not held.strip() else held), []
        return "", self._told(found)
