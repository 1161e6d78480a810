"""Completion and signatures for the editor, from the names that the cells have defined."""

from __future__ import annotations

import ast
import builtins
import inspect
import keyword
import re
import rlcompleter
from collections.abc import Mapping
from typing import Any

MOST = 200
NAME = re.compile(r"[^\W\d]\w*(?:\.\w*)*$")
LONGEST_DOC = 600  # characters


def completions(text: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """What the name at the end of `text` can become: {"from": where it begins, "names": [{"label", "kind"}]}."""
    found = NAME.search(text)
    if not found:
        return {"from": len(text), "names": []}
    word = found.group()
    path, dot, start = word.rpartition(".")
    completer = rlcompleter.Completer(dict(namespace))
    names: dict[str, None] = {}
    for i in range(5000):
        match = completer.complete(word, i)
        if match is None:
            break
        name = match.rpartition(".")[2].rstrip("() :")
        if start.startswith("_") or not name.startswith("_"):
            names[name] = None
    owner = value_of(path, namespace) if dot else None
    listed = [
        {"label": name, "kind": kind_of(name, owner if dot else namespace, bool(dot))}
        for name in sorted(names, key=str.lower)
    ]
    return {"from": len(text) - len(start), "names": listed[:MOST]}


def kind_of(name: str, owner: Any, attribute: bool) -> str:
    """One of CodeMirror's kinds of completions."""
    if not attribute and keyword.iskeyword(name):
        return "keyword"
    try:
        if attribute:
            value = inspect.getattr_static(owner, name)
        else:
            value = owner[name] if name in owner else getattr(builtins, name)
    except Exception:
        return "property" if attribute else "variable"
    if inspect.ismodule(value):
        return "namespace"
    if inspect.isclass(value):
        return "class"
    if callable(value) or isinstance(value, (classmethod, staticmethod)):
        return "method" if attribute and not inspect.ismodule(owner) else "function"
    return "property" if attribute else "variable"


def signature(text: str, namespace: Mapping[str, Any]) -> dict[str, str] | None:
    """The signature of the function whose call is open at the end of `text`, and the beginning of its documentation."""
    path = open_call(text)
    value = value_of(path, namespace) if path else None
    if value is None or not callable(value):
        return None
    try:
        shown = str(inspect.signature(value))
    except (TypeError, ValueError):
        shown = "(…)"
    doc = (inspect.getdoc(value) or "").split("\n\n")[0].strip()
    return {"text": f"{path.rpartition('.')[2]}{shown}"[:LONGEST_DOC], "doc": doc[:LONGEST_DOC]}


def open_call(text: str) -> str:
    """The name before the innermost bracket that is still open: "np.zeros" of "x = np.zeros((2, 3), "; "" if none."""
    depth = 0
    for i in range(len(text) - 1, max(len(text) - 2000, -1), -1):
        if text[i] in ")]}":
            depth += 1
        elif text[i] in "([{":
            depth -= 1
            found = NAME.search(text[:i]) if depth < 0 and text[i] == "(" else None
            if found and not keyword.iskeyword(found.group()):
                return found.group()
            if depth < 0:
                depth = 0
    return ""


def value_of(path: str, namespace: Mapping[str, Any]) -> Any:
    """The value of a dotted name; None if there is none. Calls and indices are not evaluated."""
    try:
        ast.parse(path, mode="eval")
    except SyntaxError:
        return None
    first, *rest = path.split(".")
    value = namespace.get(first, getattr(builtins, first, None))
    for name in rest:
        try:
            value = getattr(value, name)
        except Exception:  # a property may raise anything
            return None
    return value
