"""jinja2 in a sandbox for chat templates, which come from strangers: without files, imports and attributes of Python,
and with limits on steps, time, the size of texts and the depth of calls.

The settings and functions are those that transformers gives to chat templates
(https://huggingface.co/docs/transformers/chat_templating_writing). Loops, calls, filters and joined texts count as
steps, which check the clock, and no single step can take long, because the sizes of its texts, lists and numbers are
limited. A list that has another one twice counts it twice: sixty lists that each have the last one twice would take
for ever to print or to compare.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, wraps
from itertools import chain
from string import Formatter
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SecurityError
from jinja2.utils import Cycler, Joiner, Namespace

SECONDS = 5.0
STEPS = 1_000_000
TEXT_LIMIT = 16 << 20  # characters of any text that a template makes
WIDTH_LIMIT = 1 << 10  # columns of an indentation, digits of a number
SOURCE_LIMIT = 1 << 20  # characters of a template
NUMBER_LIMIT = 1 << 62
# A browser's stack is small, and a tab does not survive its overflow: nesting is counted instead of met.
CALLS_LIMIT = 20
NESTING_LIMIT = 40
LINKS_LIMIT = 400  # operators of one expression
RANGE_LIMIT = 100_000
DEPTH_LIMIT = 100  # lists in one another
NUMBER_SIZE = 20  # characters of a number in a list, as far as the limits count them
# Filters and methods of jinja2 and str that pad or format to any width, and that no chat template needs.
FILTERS = frozenset(("center", "wordwrap", "urlize", "xmlattr", "pprint", "filesizeformat", "random", "batch"))
METHODS = frozenset(("center", "ljust", "rjust", "zfill", "expandtabs", "format", "format_map", "translate", "encode"))


class TemplateLimit(Exception):
    """A template reached a limit."""


class TemplateRefusal(Exception):
    """`raise_exception` of a template: the messages do not fit it."""


class _Budget:
    """What one rendering may still use."""

    def __init__(self, now: datetime, variables: Mapping[str, Any]) -> None:
        self.now = now
        self.calls = 0  # that are under way
        self._steps = 0
        self._deadline = time.monotonic() + SECONDS
        # By id, the lists, tuples and dicts whose sizes are known, which are kept so that their ids stay theirs.
        self._known: dict[int, tuple[Any, int, int]] = {}
        self._kept = 0
        self._limit = TEXT_LIMIT + self._size(dict(variables))[0]

    def step(self) -> None:
        self._steps += 1
        if self._steps > STEPS:
            raise TemplateLimit(f"it takes more than {STEPS:,} steps")
        if not self._steps & 7 and time.monotonic() > self._deadline:
            raise TemplateLimit(f"it takes more than {SECONDS:g} seconds")

    def sized(self, value: Any) -> Any:
        """The value; TemplateLimit for a text, list or number that is too large."""
        if isinstance(value, list | tuple | dict):
            if self._kept > self._limit:
                self._known.clear()
                self._kept = 0
            size, depth = self._size(value)
            if size > self._limit:
                raise TemplateLimit(f"it makes a list that is a text of more than {TEXT_LIMIT:,} characters")
            if depth > DEPTH_LIMIT:
                raise TemplateLimit(f"it makes lists that are nested more than {DEPTH_LIMIT} deep")
        return sized(value)

    def _size(self, value: Any) -> tuple[int, int]:
        """(about the characters that printing a value gives, how deep the lists in it are nested)."""
        if isinstance(value, str):
            return len(value) + 2, 0
        if not isinstance(value, list | tuple | dict):
            return NUMBER_SIZE, 0
        known = self._known.get(id(value))
        if known is None:
            size, depth = 2, 0
            for part in chain(value.keys(), value.values()) if isinstance(value, dict) else value:
                more, below = self._size(part)
                size, depth = size + more, max(depth, below)
            known = self._known[id(value)] = value, size, depth + 1
            self._kept += NUMBER_SIZE * (len(value) + 1)
        return known[1:]


def sized(text: Any) -> Any:
    """The value; TemplateLimit for a text or number that is too large."""
    if isinstance(text, str) and len(text) > TEXT_LIMIT:
        raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")
    if isinstance(text, int) and abs(text) > NUMBER_LIMIT:
        raise TemplateLimit("it makes a number of more than 62 bits")
    return text


def joined(parts: Iterable[Any]) -> str:
    """The texts one after another."""
    found: list[str] = []
    total = 0
    for part in parts:
        found.append(str(part))
        total += len(found[-1])
        if total > TEXT_LIMIT:
            raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")
    return "".join(found)


class _Generation(Extension):
    """`{% generation %}` marks what the model wrote, for training; here its content is text like other text."""

    tags = {"generation"}

    def parse(self, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _NoFiles(jinja2.BaseLoader):
    """Refuses `include`, `import` and `extends`."""

    def get_source(self, environment: Any, template: str) -> Any:
        raise SecurityError(f"it asks for the file {template!r:.60}: templates cannot read files")


class _Names(Namespace):
    """`namespace`, without names that begin with an underscore. Its text does not show its values, which may be
    namespaces in turn.
    """

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, rest = args[0], args[1:]
        values = dict(*rest, **kwargs)
        for name in values:
            _check_name(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        Namespace.__setitem__(self, name, value)

    def __repr__(self) -> str:
        return "<namespace>"


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot have the name {name!r:.60}")


class _Environment(ImmutableSandboxedEnvironment):
    """Counts the steps of templates. One environment renders one text at a time."""

    intercepted_binops = frozenset(("+", "-", "*", "/", "//", "%", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, optimized=False, extensions=[_Generation, loopcontrols],
            loader=_NoFiles(),
        )  # fmt: skip
        self.budget = _Budget(datetime.now(), {})
        self.concat = joined  # type: ignore[method-assign]
        for name in FILTERS:
            self.filters.pop(name, None)
        self.filters |= {
            "tojson": _tojson, "indent": _limited(self.filters["indent"]), "replace": self._replace,
            "round": _limited(self.filters["round"]), "slice": _limited(self.filters["slice"]), "join": self._join,
            "format": _percent_format,
        }  # fmt: skip
        self.filters = {name: self._stepped(function) for name, function in self.filters.items()}
        self.filters |= {"_counted": self._counted, "_joined": self._concatenate, "_made": self._made}
        self.globals = {
            "raise_exception": _refuse, "strftime_now": lambda form: self.budget.now.strftime(_short(form)),
            "namespace": _Names, "dict": lambda *args, **values: dict(*args, **values), "range": self._range,
            "cycler": Cycler, "joiner": Joiner,
        }  # fmt: skip

    def _generate(self, source: nodes.Template, name: Any, filename: Any, defer_init: bool = False) -> str:
        """Changes a template before it becomes Python: loops, joined texts and lists go through the functions that
        count.
        """
        _check_depth(source)
        for loop in source.find_all(nodes.For):
            if loop.recursive:
                raise TemplateLimit("it has a recursive loop, which is not supported")
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        _replace_makers(source)
        code: str = super()._generate(source, name, filename, defer_init)
        return code

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        self.budget.step()
        if operator == "*":
            for text, count in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(count, int):
                    unit = 1 if isinstance(text, str) else NUMBER_SIZE
                    if unit * len(text) * count > TEXT_LIMIT:
                        raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")
        elif operator == "**" and isinstance(right, int) and abs(right) > 64:
            raise TemplateLimit(f"it raises a number to the power {right}")
        elif operator == "%" and isinstance(left, str):
            _check_format(left, right)
        return self.budget.sized(super().call_binop(context, operator, left, right))

    def call(self, context: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        self.budget.step()
        owner = getattr(function, "__self__", None)
        if isinstance(owner, str) and function.__name__ == "replace":
            _check_replacement(owner, *args)
        if isinstance(owner, str) and function.__name__ == "join":
            return joined(_between(owner, *args))
        self.budget.calls += 1
        if self.budget.calls > CALLS_LIMIT:
            raise TemplateLimit(f"its calls are nested more than {CALLS_LIMIT} deep")
        try:
            return self.budget.sized(super().call(context, function, *args, **kwargs))
        finally:
            self.budget.calls -= 1

    def is_safe_attribute(self, obj: Any, attribute: str, value: Any) -> bool:
        if isinstance(obj, str) and attribute in METHODS:
            return False
        if isinstance(obj, int | float | bytes):  # to_bytes makes any number of bytes; no chat template needs one
            return False
        return bool(super().is_safe_attribute(obj, attribute, value))

    def wrap_str_format(self, value: Any) -> Any:
        """What takes the place of a text's method `format`; None for other values."""
        own = getattr(value, "__self__", None)
        if not isinstance(own, str) or getattr(value, "__name__", None) != "format":
            return None
        return lambda *args, **values: _brace_format(str(own), *args, **values)

    def _counted(self, items: Any) -> Iterator[Any]:
        for item in items:
            self.budget.step()
            yield item

    def _stepped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter that is a step, and whose result has a limit."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.budget.step()
            return self.budget.sized(function(*args, **kwargs))

        return call

    def _made(self, value: Any) -> Any:
        """A list, tuple or dict of a template."""
        self.budget.step()
        return self.budget.sized(value)

    def _concatenate(self, parts: Sequence[Any]) -> str:
        self.budget.step()
        return joined(parts)

    def _range(self, *numbers: int) -> range:
        self.budget.step()
        found = range(*numbers)
        if len(found) > RANGE_LIMIT:
            raise TemplateLimit(f"it counts further than {RANGE_LIMIT:,}")
        return found

    def _replace(self, text: Any, old: str, new: str, count: int | None = None) -> str:
        self.budget.step()
        text, old, new = str(text), str(old), str(new)
        _check_replacement(text, old, new)
        return text.replace(old, new, -1 if count is None else count)

    def _join(self, values: Iterable[Any], separator: Any = "", attribute: Any = None) -> str:
        self.budget.step()
        if attribute is not None:
            values = [self.getitem(value, attribute) for value in values]
        return joined(_between(str(separator), values))


def _between(separator: str, values: Iterable[Any]) -> Iterator[Any]:
    for index, value in enumerate(values):
        if index:
            yield separator
        yield value


def _check_replacement(text: str, old: Any = "", new: Any = "", *_: Any) -> None:
    if isinstance(old, str) and isinstance(new, str) and len(text) + text.count(old) * len(new) > TEXT_LIMIT:
        raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")


def _check_format(form: str, values: Any) -> None:
    """Checks `form % values`: widths are small, values are texts and numbers, and the text stays within the limit."""
    given = values if isinstance(values, tuple) else tuple(values.values()) if isinstance(values, dict) else (values,)
    _check_formatted(form, form.count("%"), given)
    for part in form.split("%")[1:]:
        directive = re.match(r"(?:\([^()]*\)|(?!\())([^A-Za-z]*)", part)
        if directive is None:
            raise SecurityError("a name in a format has brackets or a percent sign")
        if "*" in directive[1]:
            raise TemplateLimit("a width in a format is a value")
        _check_widths(directive[1])


def _check_formatted(form: str, fields: int, values: Iterable[Any]) -> None:
    """Checks that values are texts and numbers, and that a text with so many of them stays within the limit. It is
    quick, so that the form may be read after it.
    """
    longest = 0
    for value in values:
        if not isinstance(value, str | int | float | None | jinja2.Undefined):
            raise SecurityError("only texts and numbers can be formatted")
        # `%r` writes a character as at most ten; a float has at most 309 digits before the point
        longest = max(longest, value.bit_length() if isinstance(value, int) else 10 * len(str(value)) + 310)
    if len(form) + fields * (longest + 2 * WIDTH_LIMIT) > TEXT_LIMIT:
        raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")


def _check_widths(spec: str) -> None:
    """TemplateLimit for a large width or precision. Python reads the digits of every script in them."""
    if any(len(width.lstrip("0")) > len(str(WIDTH_LIMIT)) - 1 for width in re.findall(r"\d+", spec)):
        raise TemplateLimit(f"a width has more than {len(str(WIDTH_LIMIT)) - 1} digits")


def _percent_format(form: Any, *args: Any, **kwargs: Any) -> str:
    """The filter `format`: form % args, or form % kwargs."""
    values = kwargs or args
    _check_format(str(form), values)
    return str(form) % values


def _brace_format(form: str, *args: Any, **kwargs: Any) -> str:
    """form.format(...) of texts and numbers, without attributes and items of them, and with small widths."""
    _check_formatted(form, form.count("{") + form.count("}"), (*args, *kwargs.values()))
    for _, name, spec, _ in Formatter().parse(form):
        if not re.fullmatch(r"\w*", name or "") or "{" in (spec or ""):
            raise SecurityError("a format names an attribute or an item, or has a name in a width")
        _check_widths(spec or "")
    return form.format(*args, **kwargs)


def _limited(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose whole numbers are limited."""

    def call(value: Any, *args: Any, **kwargs: Any) -> Any:
        for number in (*args, *kwargs.values()):
            if isinstance(number, int | float | str) and _width(number) > WIDTH_LIMIT:
                raise TemplateLimit(f"a width is more than {WIDTH_LIMIT:,}")
        if isinstance(value, str) and value.count("\n") * WIDTH_LIMIT > TEXT_LIMIT:
            widest = max((_width(number) for number in (*args, *kwargs.values())), default=4)
            if value.count("\n") * widest > TEXT_LIMIT:
                raise TemplateLimit(f"it makes a text of more than {TEXT_LIMIT:,} characters")
        return function(value, *args, **kwargs)

    return call


def _width(value: Any) -> float:
    return len(value) if isinstance(value, str) else abs(value) if isinstance(value, int | float) else 0


def _short(form: Any) -> str:
    """A format of a date. Numbers in it are widths."""
    if not isinstance(form, str) or len(form) > WIDTH_LIMIT or re.search(r"%[^A-Za-z%]*\d{3}", form):
        raise TemplateLimit("a format of a date is too long")
    return form


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """JSON as transformers writes it: jinja2's own filter escapes the signs of HTML."""
    if _width(indent) > 64:
        raise TemplateLimit("an indentation is wider than 64")
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    return str(sized(text))


def _refuse(message: Any) -> Any:
    raise TemplateRefusal(str(message))


def _replace_makers(node: Any) -> None:
    """Turns `a ~ b` into a filter that joins within the limits, and gives lists to one that limits them."""
    for name, value in list(node.iter_fields()):
        if isinstance(value, list):
            value[:] = [_limited_maker(item) if isinstance(item, nodes.Node) else item for item in value]
        elif isinstance(value, nodes.Node):
            setattr(node, name, _limited_maker(value))


def _limited_maker(node: Any) -> Any:
    _replace_makers(node)
    if isinstance(node, nodes.Concat):
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "_joined", [], [], None, None, lineno=node.lineno)
    made = isinstance(node, nodes.List | nodes.Dict) or (isinstance(node, nodes.Tuple) and node.ctx == "load")
    if made and not all(isinstance(part, nodes.Const) for part in _parts(node)):  # constants are small
        return nodes.Filter(node, "_made", [], [], None, None, lineno=node.lineno)
    return node


def _parts(node: Any) -> Iterator[Any]:
    """The parts of a list, and the keys and values of a dict."""
    for part in node.items:
        yield from (part.key, part.value) if isinstance(part, nodes.Pair) else (part,)


def _check_depth(tree: nodes.Template) -> None:
    """TemplateLimit for a tree whose expressions are nested deeply, as a chain of additions is."""
    level: list[Any] = [tree]
    for _ in range(2 * NESTING_LIMIT):
        level = [child for node in level for child in node.iter_child_nodes()]
        if not level:
            return
    raise TemplateLimit("it is nested too deeply")


def _check_nesting(environment: _Environment, source: str) -> None:
    """TemplateLimit for brackets, blocks and prefixes that are nested deeply, and for long expressions, before jinja2
    parses them.
    """
    brackets = blocks = prefixes = sets = links = 0
    begins = False
    for _, kind, value in environment.lex(source):
        if kind == "whitespace":
            continue
        if kind == "operator":
            brackets += (value in "([{") - (value in ")]}")
        if begins:
            blocks += (value in _BLOCKS) - (value[:3] == "end" and value[3:] in _BLOCKS)
            sets += value == "endset"  # `set` may or may not begin a block
        starts = kind in ("variable_begin", "block_begin")
        prefixes = 0 if starts else prefixes + (value in _PREFIXES)
        links = 0 if starts else links + (kind == "operator" or value in _WORD_OPERATORS)
        begins = kind == "block_begin"
        if max(brackets, blocks, prefixes, sets) > NESTING_LIMIT or links > LINKS_LIMIT:
            raise TemplateLimit("it is nested too deeply")


_BLOCKS = frozenset("for if macro call filter block with autoescape generation".split())
_WORD_OPERATORS = frozenset(("and", "or", "is", "in", "not"))
_PREFIXES = frozenset(("not", "-", "+", "if", "elif", "else", "**"))


@lru_cache(maxsize=16)
def _compiled(source: str) -> tuple[_Environment, Any]:
    environment = _Environment()
    _check_nesting(environment, source)
    return environment, environment.from_string(source)


def render_source(source: str, variables: Mapping[str, Any], now: datetime | None = None) -> str:
    """The text of a template. Raises TemplateLimit, TemplateRefusal, jinja2's errors, and those of the operations in
    it (TypeError, ValueError, …).
    """
    if len(source) > SOURCE_LIMIT:
        raise TemplateLimit(f"it has more than {SOURCE_LIMIT:,} characters")
    with _ONE_AT_A_TIME:
        environment, template = _compiled(source)
        environment.budget = _Budget(now or datetime.now(), variables)
        try:
            return joined(template.generate(**variables))
        finally:  # a template that is kept for its next rendering keeps no messages
            environment.budget = _Budget(datetime.now(), {})


_ONE_AT_A_TIME = threading.Lock()
TEMPLATE_ERRORS: tuple[type[Exception], ...] = (
    jinja2.TemplateError, TemplateLimit, TypeError, ValueError, LookupError, AttributeError, ArithmeticError,
    RecursionError, MemoryError, SyntaxError, AssertionError, RuntimeError,
)  # fmt: skip
