"""Text of a given form: the JSON of a schema, the matches of a regular expression, one of some choices.

The form is an automaton over bytes (automata.py). For each state of it a mask says which tokens the text may go on
with: those whose bytes it can read. A kernel makes the mask by reading all tokens of the vocabulary, some
milliseconds for 128,000 tokens; masks are kept by state.

The text always has the form, also when max_new_tokens or the context ends it: a token is allowed only if the tokens
that are left suffice to complete the text byte by byte. (A stop string or Stop may still cut it short.)
"""

from __future__ import annotations

import json
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from pyapp.engine.device import Device
from pyapp.engine.dtype import int32, uint8
from pyapp.engine.ops import full, where
from pyapp.engine.ops.token_masks import token_mask
from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.formats.safe_json import check_values
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.structured_output.automata import Automaton, Either, Expression, compile_expression, literal
from pyapp.text.structured_output.json_forms import Schema
from pyapp.text.tokenization.patterns import Pattern
from pyapp.text.tokenization.tokenizer import Tokenizer

MASK_BYTES = 64 << 20  # of the masks that a form keeps
FORMS = 8  # that are kept for a tokenizer


class Vocabulary:
    """The bytes of all tokens of a model, on its device. `alphabet` are the bytes that are tokens by themselves."""

    def __init__(self, tokenizer: Tokenizer, size: int, device: Device) -> None:
        self.size, self.device = size, device
        known = min(size, tokenizer.vocab_size)
        self.pieces = [tokenizer.token_bytes(token) for token in range(known)] + [b""] * (size - known)
        ends = array("i", [0])
        for piece in self.pieces:
            ends.append(ends[-1] + len(piece))
        data = b"".join(self.pieces)
        if not data:
            raise ModelError("no token of the tokenizer has text", where="tokenizer")
        self.bytes = Tensor.from_buffer(data, (len(data),), uint8).to(device)  # (N,)
        self.offsets = Tensor.from_buffer(ends, (size + 1,), int32).to(device)  # (V + 1,)
        self.alphabet = {piece[0] for piece in self.pieces if len(piece) == 1}


class CompiledForm:
    """An automaton with the masks of its states. `distance[state]` is the number of tokens that suffice to complete the
    text; `open[state]` says whether it may go on.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary, stops: Sequence[int], where: str) -> None:
        self.automaton, self.vocabulary = automaton, vocabulary
        self.distance = automaton.distances(vocabulary.alphabet)
        if self.distance[0] < 0:
            raise OptionError(
                "no text of this form can be written with the model's tokens", where=where,
                hint="Check that the form allows any text at all",
            )  # fmt: skip
        self.farthest = max(self.distance)
        self.open = [any(state >= 0 and self.distance[state] >= 0 for state in row) for row in automaton.rows]
        self._stops = [token for token in stops if token < vocabulary.size and not vocabulary.pieces[token]]
        device, (states, columns) = vocabulary.device, (len(automaton.rows), len(automaton.rows[0]))
        cells = array("i", [cell for row in automaton.rows for cell in row])
        self._table = Tensor.from_buffer(cells, (states, columns), int32).to(device)
        self._columns = Tensor.from_buffer(automaton.column_of, (256,), uint8).to(device)
        self._distance = Tensor.from_buffer(array("i", self.distance), (states,), int32).to(device)
        self._masks: OrderedDict[int, Tensor] = OrderedDict()
        self._refused = full((vocabulary.size,), -inf, device=device)  # (V,)

    def apply(self, logits: Tensor, state: int, left: int | None) -> Tensor:
        """logits (V,), -inf for the tokens that do not fit, where `left` tokens may still come."""
        return where(self.mask(state, left), logits, self._refused)

    def mask(self, state: int, left: int | None) -> Tensor:
        """The tokens (V,) bool that the text may go on with in `state`."""
        if left is not None and left - 1 < self.farthest:
            return self._new_mask(state, left - 1)
        mask = self._masks.get(state)
        if mask is None:
            mask = self._masks[state] = self._new_mask(state, self.farthest)
            while len(self._masks) > max(1, MASK_BYTES // self.vocabulary.size):
                self._masks.popitem(last=False)
        else:
            self._masks.move_to_end(state)
        return mask

    def _new_mask(self, state: int, budget: int) -> Tensor:
        words = self.vocabulary
        mask = token_mask(self._table, self._columns, self._distance, words.bytes, words.offsets, state, budget)
        if self.automaton.accepting[state]:
            for token in self._stops:
                mask.narrow(0, token, 1).assign([True])
        return mask


class TextForm:
    """The form of one text, as far as it is written. `left` tokens may come; None: any number."""

    def __init__(self, compiled: CompiledForm, left: int | None = None) -> None:
        if left is not None and compiled.distance[0] > left:
            raise OptionError(
                f"the form needs up to {compiled.distance[0]:,} tokens, there is room for {left:,}",
                where="max_new_tokens", hint="Allow more tokens, or a shorter form",
            )  # fmt: skip
        self._compiled, self._left = compiled, left
        self._state = 0

    @property
    def complete(self) -> bool:
        """Whether the text has the form and cannot go on."""
        return self._compiled.automaton.accepting[self._state] and not self._compiled.open[self._state]

    def apply(self, logits: Tensor) -> Tensor:
        """logits (V,) with -inf for the tokens that the text may not go on with."""
        return self._compiled.apply(logits, self._state, self._left)

    def accept(self, token: int) -> None:
        """Goes on with a token of the text."""
        state = self._compiled.automaton.run(self._compiled.vocabulary.pieces[token], self._state)
        if state < 0:
            raise ValueError(f"token {token} does not fit the form")
        self._state = state
        if self._left is not None:
            self._left -= 1

    def copy(self) -> TextForm:
        """A text that goes on from here by itself."""
        other = TextForm.__new__(TextForm)
        other._compiled, other._left, other._state = self._compiled, self._left, self._state
        return other


class _Known:
    """What was made for a tokenizer: its vocabularies by size and device, and the last forms."""

    def __init__(self) -> None:
        self.vocabularies: dict[tuple[int, Device], Vocabulary] = {}
        self.forms: OrderedDict[object, CompiledForm] = OrderedDict()


_known: WeakKeyDictionary[Tokenizer, _Known] = WeakKeyDictionary()


def expression_of(options: SamplingOptions, schema: Any) -> tuple[Expression, str]:
    """The expression of the form, and the name of its setting. `schema` is the options' schema as JSON reads it."""
    if options.json_schema is not None:
        return Schema(schema).expression(), "json_schema"
    if options.regex is not None:
        return Pattern(options.regex, "regex").whole(), "regex"
    return Either(tuple(literal(text) for text in options.choice)), "choice"


def form_of(options: SamplingOptions, tokenizer: Tokenizer, size: int, device: Device, left: int | None) -> TextForm:
    """The form that the options ask for, of a text of at most `left` tokens, for logits (size,) on a device.
    OptionError for what is not supported.
    """
    return TextForm(compiled_form(options, tokenizer, size, device), left)


def compiled_form(options: SamplingOptions, tokenizer: Tokenizer, size: int, device: Device) -> CompiledForm:
    """As form_of, for any number of texts; the last ones are kept. It may take seconds, on any thread."""
    known = _known.setdefault(tokenizer, _Known())
    stops = sorted(tokenizer.stop_ids.union(options.stop_tokens))
    try:
        check_values(options.json_schema)  # json.dumps recurses in C: in a browser that overflows the worker's stack
        wanted = json.dumps([options.json_schema, options.regex, options.choice], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise OptionError(f"not JSON: {error!s:.100}", where="json_schema") from None
    key = (wanted, size, device, tuple(stops))
    compiled = known.forms.pop(key, None)
    if compiled is None:
        vocabulary = known.vocabularies.get((size, device))
        if vocabulary is None:
            vocabulary = known.vocabularies[size, device] = Vocabulary(tokenizer, size, device)
        try:
            expression, where = expression_of(options, json.loads(wanted)[0])
        except RecursionError:
            raise OptionError("the form is nested too deeply", where="json_schema") from None
        compiled = CompiledForm(compile_expression(expression, where), vocabulary, stops, where)
    known.forms[key] = compiled
    while len(known.forms) > FORMS:
        known.forms.popitem(last=False)
    return compiled
