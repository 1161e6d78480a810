"""The items of /v1/responses: what a request gives as `input`, as messages for the chat template; and what a model
writes, as items and events.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .chat import content_of, parts_of, with_parsed_arguments
from .fields import Fields
from .problems import Problem
from .response_store import Item, ResponseStore

PICTURE = "input_image"  # the type of parts with pictures
ROLES = ("user", "assistant", "system", "developer")
PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}
MOST_ITEMS = 10_000  # of one request
Value = dict[str, Any]


def new_id(kind: str) -> str:
    return f"{PREFIXES[kind]}_{secrets.token_hex(16)}"


# -- what a request gives


def input_items(fields: Fields, store: ResponseStore, earlier: Collection[str] = ()) -> list[Item]:
    """The items of the field `input`: a text, which is a message of the user, or items. `earlier`: the ids of those
    before them; without any, there must be some here. An id that occurs again is replaced.
    """
    given = fields.any("input")
    if given is None:
        if not earlier:
            raise fields.missing("input")
        return []
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise fields.wrong("input", "must be a string or an array of items", "invalid_type")
    if not given and not earlier:
        raise fields.wrong("input", "is empty")
    if len(given) > MOST_ITEMS:
        raise fields.wrong("input", f"has {len(given):,} items; {MOST_ITEMS:,} are allowed")
    found, known = [], set(earlier)
    for index, entry in enumerate(given):
        item = _item(entry, f"input[{index}]", store)
        if item.id in known:
            item = Item.of(item.value | {"id": new_id(item.value["type"])})
        known.add(item.id)
        found.append(item)
    return found


def _item(entry: Any, at: str, store: ResponseStore) -> Item:
    """An item with only the fields that are read here, and with an id."""
    if not isinstance(entry, dict):
        raise Problem(f"{at}: must be an object", param=at, code="invalid_type")
    fields = Fields(entry, at)
    id = fields.text("id")
    kind = fields.text("type") or ("message" if "role" in entry else "item_reference")
    if kind == "item_reference":
        return store.item(fields.needed("id", id), fields.name("id"))
    if kind not in PREFIXES:
        raise fields.wrong("type", f"items of type {kind!r:.40} are not read here", "unsupported_content")
    head = {"id": id or new_id(kind), "type": kind}
    return Item.of(head | _READERS[kind](fields), named=id is None)


def _message(fields: Fields) -> Value:
    role = fields.needed_text("role", ROLES)
    content = fields.needed("content", fields.any("content"))
    usual = "output_text" if role == "assistant" else "input_text"
    other = "input_text" if role == "assistant" else "output_text"
    picture = PICTURE if role == "user" else None
    parts = parts_of(content, fields.name("content"), usual, other, "refusal", picture=picture)
    return {"role": role, "status": "completed", "content": [_part(kind, text) for kind, text in parts]}


def _part(kind: str, text: str) -> Value:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    if kind == PICTURE:
        return {"type": kind, "image_url": text, "detail": "auto"}
    found: Value = {"type": kind, "text": text}
    return found | ({"annotations": []} if kind == "output_text" else {})


def _function_call(fields: Fields) -> Value:
    found = {name: fields.needed_text(name) for name in ("call_id", "name", "arguments")}
    return found | {"status": "completed"}


def _function_call_output(fields: Fields) -> Value:
    call, output = fields.needed_text("call_id"), fields.needed("output", fields.any("output"))
    parts = parts_of(output, fields.name("output"), "input_text", "output_text")
    return {"call_id": call, "output": "".join(text for _, text in parts), "status": "completed"}


def _reasoning(fields: Fields) -> Value:
    found: Value = {}
    for name, kind in (("summary", "summary_text"), ("content", "reasoning_text")):
        parts = parts_of(fields.array(name, []), fields.name(name), kind)
        found[name] = [{"type": kind, "text": text} for kind, text in parts]
    if fields.given("encrypted_content") and not any(found.values()):
        raise fields.wrong(
            "encrypted_content", "only the server that wrote it can read it: leave this item out", "unsupported_content"
        )
    return found


_READERS = {
    "message": _message, "function_call": _function_call, "function_call_output": _function_call_output,
    "reasoning": _reasoning,
}  # fmt: skip


def texts_of(items: Iterable[Value]) -> list[str]:
    """All texts of items: what a request is long by."""
    found = []
    for item in items:
        found += [value for value in item.values() if isinstance(value, str)]
        parts = (*item.get("content", ()), *item.get("summary", ()))
        found += [part.get("text", part.get("refusal", "")) for part in parts]
    return found


def messages_of(items: Sequence[Value], instructions: str | None) -> list[Value]:
    """Items as the messages of a chat: calls belong to the message of the assistant before them, thoughts to the one
    after them. `instructions` are the first message of the system, before one that the items begin with.
    """
    found: list[Value] = []
    names: dict[str, str] = {}  # of the called functions
    thoughts = ""
    for item in items:
        kind = item["type"]
        if kind == "reasoning":
            thoughts = "".join(part["text"] for part in item["content"] or item["summary"])
            continue
        if kind == "function_call_output":
            called = names.get(item["call_id"])
            message = {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
            found.append(message | ({} if called is None else {"name": called}))
        elif kind == "function_call":
            names[item["call_id"]] = item["name"]
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = with_parsed_arguments({"id": item["call_id"], "type": "function", "function": function})
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": "", "reasoning_content": thoughts})
            found[-1].setdefault("tool_calls", []).append(call)
        else:
            role = "system" if item["role"] == "developer" else item["role"]
            parts = [
                (part["type"], part.get("text", part.get("refusal", part.get("image_url", ""))))
                for part in item["content"]
            ]
            found.append({"role": role, "content": content_of(parts, PICTURE)})
            if role == "assistant":
                found[-1]["reasoning_content"] = thoughts
        thoughts = ""
    if instructions is not None:
        if found and found[0]["role"] == "system":
            found[0] = {**found[0], "content": f"{instructions}\n\n{found[0]['content']}"}
        else:
            found.insert(0, {"role": "system", "content": instructions})
    return [{name: value for name, value in one.items() if value or name != "reasoning_content"} for one in found]


# -- what a model writes


class Output:
    """The items that a model writes, and the events of a stream that tell them, in OpenAI's order."""

    def __init__(self) -> None:
        self.items: list[Value] = []
        self._open = False  # the last item is being written
        self._told = 0

    def event(self, kind: str, **more: Any) -> Value:
        """An event with the next sequence number."""
        self._told += 1
        return {"type": f"response.{kind}" if kind != "error" else kind, "sequence_number": self._told - 1, **more}

    def add(
        self, thought: str, text: str, calls: Iterable[Mapping[str, Any]], scores: Sequence[Value] = ()
    ) -> list[Value]:
        """The events of what a model has written: thoughts, then text with the log-probabilities of its tokens, then
        pieces of calls as ToolSplitter gives them.
        """
        events: list[Value] = []
        if thought:
            events += self._begin("reasoning", "reasoning_text")
            events.append(self._written("reasoning_text.delta", thought))
        if text and not (text.isspace() and self.items and self.items[-1]["type"] == "function_call"):
            events += self._begin("message", "output_text")
            self.items[-1]["content"][0]["logprobs"] += scores
            events.append(self._written("output_text.delta", text, logprobs=[*scores]))
        for piece in calls:
            function = piece["function"]
            if "id" in piece:
                events += self._close()
                events += self._added({
                    "id": new_id("function_call"), "type": "function_call", "status": "in_progress",
                    "call_id": piece["id"], "name": function["name"], "arguments": "",
                })  # fmt: skip
            if function["arguments"]:
                self.items[-1]["arguments"] += function["arguments"]
                events.append(self._of_item("function_call_arguments.delta", delta=function["arguments"]))
        return events

    def finish(self, incomplete: bool) -> list[Value]:
        """The events of the end; an answer without any item gets an empty message."""
        events = [] if self.items else self._begin("message", "output_text")
        return events + self._close("incomplete" if incomplete else "completed")

    def _of_item(self, kind: str, **more: Any) -> Value:
        return self.event(kind, item_id=self.items[-1]["id"], output_index=len(self.items) - 1, **more)

    def _written(self, kind: str, text: str, **more: Any) -> Value:
        self.items[-1]["content"][0]["text"] += text
        return self._of_item(kind, content_index=0, delta=text, **more)

    def _added(self, item: Value) -> list[Value]:
        self.items.append(item)
        self._open = True
        return [self.event("output_item.added", output_index=len(self.items) - 1, item=dict(item))]

    def _begin(self, kind: str, part: str) -> list[Value]:
        """Goes on with the last item if it is of this kind, or begins one with a part."""
        if self._open and self.items[-1]["type"] == kind:
            return []
        events = self._close()
        item: Value = {"id": new_id(kind), "type": kind, "status": "in_progress", "content": []}
        if kind == "message":
            item["role"] = "assistant"
        else:
            item["summary"] = []
        events += self._added(item)
        content: Value = {"type": part, "text": ""}
        if kind == "message":
            content |= {"annotations": [], "logprobs": []}
        item["content"] = [content]
        events.append(self._of_item("content_part.added", content_index=0, part=_copied(content)))
        return events

    def _close(self, status: str = "completed") -> list[Value]:
        """The events of the end of the last item."""
        if not self._open:
            return []
        self._open = False
        item = self.items[-1]
        item["status"] = status
        if item["type"] == "function_call":
            events = [self._of_item("function_call_arguments.done", name=item["name"], arguments=item["arguments"])]
        else:
            part = item["content"][0]
            more = {"logprobs": part["logprobs"]} if item["type"] == "message" else {}
            events = [
                self._of_item(f"{part['type']}.done", content_index=0, text=part["text"], **more),
                self._of_item("content_part.done", content_index=0, part=part),
            ]
        return [*events, self.event("output_item.done", output_index=len(self.items) - 1, item=item)]


def _copied(part: Value) -> Value:
    """A part as it is now."""
    return {name: list(value) if isinstance(value, list) else value for name, value in part.items()}
