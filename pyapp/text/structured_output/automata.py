"""Regular languages over bytes: expressions, and the deterministic automata that recognise them.

An expression is built from the classes below; `compile_expression` makes an automaton of it (Thompson's construction,
then subsets; Hopcroft, Motwani and Ullman, "Introduction to Automata Theory", chapters 2 and 3). UTF-8 text is a
language over bytes too: `characters` gives the expression of a set of characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cache
from typing import TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import OptionError

NFA_STATES = 60_000
STATES = 10_000
STEPS = 1_000_000  # of building: a form of few states can need very large sets of them
PAIR_STEPS = 300_000  # of following two automata at once: some tenths of a second
LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)

Ranges = list[tuple[int, int]]  # of code points, first and last


class Expression:
    """Base of the expressions."""


@dataclass(frozen=True)
class Byte(Expression):
    """One byte from `low` to `high`."""

    low: int
    high: int


@dataclass(frozen=True)
class Joined(Expression):
    """One after another."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Either(Expression):
    """Any one of these; with no alternatives, the empty language, which has no text."""

    options: tuple[Expression, ...]


@dataclass(frozen=True)
class Repeat(Expression):
    """From `least` to `most` times; None: without end."""

    part: Expression
    least: int
    most: int | None


@dataclass(frozen=True)
class Separated(Expression):
    """One or more times, with a separator between."""

    part: Expression
    separator: Expression


@dataclass(frozen=True)
class Members(Expression):
    """These in order, with a separator between; each may be missing unless it is required; from `least` to `most`."""

    parts: tuple[tuple[Expression, bool], ...]
    separator: Expression
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Machine(Expression):
    """The texts that an automaton reads: `edges[state]` are (low, high, next state), 0 is the first state."""

    edges: tuple[tuple[tuple[int, int, int], ...], ...]
    accepting: frozenset[int]


EMPTY = Joined(())
NOTHING = Either(())  # no text at all


@cache
def _byte(value: int) -> Byte:
    return Byte(value, value)


def literal(text: str) -> Expression:
    return Joined(tuple(map(_byte, text.encode("utf-8", "surrogatepass"))))


def joined(*parts: Expression) -> Expression:
    return Joined(parts)


def least_states(expression: Expression) -> int:
    """The states of a nondeterministic automaton that an expression of strings or numbers needs at least."""
    count, waiting = 0, [(expression, 1)]
    while waiting:
        part, times = waiting.pop()
        match part:
            case Joined(parts) | Either(parts):
                waiting += [(inner, times) for inner in parts]
            case Repeat(inner, least, most):
                waiting.append((inner, times * (least + 1 if most is None else most)))
            case Machine(edges, _):
                count += times * len(edges)
            case Byte():
                count += times
    return count


def optional(part: Expression) -> Expression:
    return Repeat(part, 0, 1)


State = TypeVar("State", bound=Hashable)


def explored(
    start: State, steps: Callable[[State], Iterable[tuple[int, int, State]]], accepts: Callable[[State], bool],
    where: str = "form",
) -> Machine:  # fmt: skip
    """The automaton of a function: `steps(state)` are (low, high, next state). OptionError for too many states."""
    numbers, waiting = {start: 0}, [start]
    edges = []
    for state in waiting:  # grows
        found = []
        for low, high, following in steps(state):
            if following not in numbers:
                if len(numbers) >= NFA_STATES:
                    raise too_large(where)
                numbers[following] = len(numbers)
                waiting.append(following)
            found.append((low, high, numbers[following]))
        edges.append(tuple(found))
    return Machine(tuple(edges), frozenset(number for state, number in numbers.items() if accepts(state)))


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same characters as ranges in order, that neither overlap nor touch."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def others(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """All other characters."""
    found, start = [], 0
    for low, high in merged(ranges):
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, LAST_CHARACTER)] if start <= LAST_CHARACTER else found


def common(one: Iterable[tuple[int, int]], other: Iterable[tuple[int, int]]) -> Ranges:
    """The characters of both."""
    return others([*others(one), *others(other)])


def characters(ranges: Iterable[tuple[int, int]]) -> Expression:
    """One character of these, in UTF-8."""
    valid = common(ranges, others([SURROGATES]))
    return _by_endings([tuple(part) for low, high in valid for part in _utf8(low, high)])


def _by_endings(sequences: Iterable[tuple[Byte, ...]]) -> Expression:
    """One of these sequences. What ends alike is written once, so that the automaton is small."""
    groups: dict[Byte | None, list[tuple[Byte, ...]]] = {}
    for part in sequences:
        groups.setdefault(part[-1] if part else None, []).append(part[:-1])
    return Either(tuple(EMPTY if end is None else joined(_by_endings(start), end) for end, start in groups.items()))


def _utf8(low: int, high: int) -> Iterator[list[Byte]]:
    """Sequences of byte ranges that are the characters low .. high: their encodings have one length, and every byte
    runs over a range by itself.
    """
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            yield from _utf8(low, last)
            yield from _utf8(last + 1, high)
            return
    for bits in (6, 12, 18) if high > 0x7F else ():
        rest = (1 << bits) - 1
        if low | rest < high or (low | rest) != (high | rest):
            if low & rest:
                yield from _utf8(low, low | rest)
                yield from _utf8((low | rest) + 1, high)
                return
            if high & rest != rest:
                yield from _utf8(low, (high & ~rest) - 1)
                yield from _utf8(high & ~rest, high)
                return
    yield [Byte(*pair) for pair in zip(chr(low).encode(), chr(high).encode(), strict=True)]


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton: state 0 is the first; `rows[state][column]` is the next state, or -1, for the bytes
    of a column; `column_of[byte]`; `accepting[state]`.
    """

    rows: list[list[int]]
    column_of: bytes
    accepting: list[bool]

    def run(self, data: bytes, state: int = 0) -> int:
        """The state after these bytes, -1 if they are refused."""
        for byte in data:
            if state < 0:
                break
            state = self.rows[state][self.column_of[byte]]
        return state

    def matches(self, data: bytes) -> bool:
        end = self.run(data)
        return end >= 0 and self.accepting[end]

    def distances(self, alphabet: Iterable[int]) -> list[int]:
        """The least number of bytes of the alphabet from each state to an accepting one; -1 if there is no way."""
        columns = {self.column_of[byte] for byte in alphabet}
        before: list[list[int]] = [[] for _ in self.rows]
        for state, row in enumerate(self.rows):
            for following in {row[column] for column in columns} - {-1}:
                before[following].append(state)
        found = [-1] * len(self.rows)
        border = [state for state, accepts in enumerate(self.accepting) if accepts]
        distance = 0
        while border:
            for state in border:
                found[state] = distance
            distance += 1
            border = list({earlier for state in border for earlier in before[state] if found[earlier] < 0})
        return found

    def lengths(self) -> tuple[int, int | None]:
        """The bytes of the shortest and of the longest text; -1 and 0 without any text, None without a longest one."""
        distances = self.distances(range(256))
        after = [{to for to in row if to >= 0 and distances[to] >= 0} for row in self.rows]
        before = [0] * len(after)
        reached, waiting = {0}, [0]
        while waiting:
            for state in after[waiting.pop()]:
                before[state] += 1
                if state not in reached:
                    reached.add(state)
                    waiting.append(state)
        longest, ready, done = [0] * len(after), [] if before[0] else [0], 0
        while ready:  # states whose predecessors are all done: those of a circle never are
            state = ready.pop()
            done += 1
            for following in after[state]:
                longest[following] = max(longest[following], longest[state] + 1)
                before[following] -= 1
                if not before[following]:
                    ready.append(following)
        return distances[0], max(longest) if done == len(reached) else None


class _Graph:
    """A nondeterministic automaton: edges for bytes, and free ones."""

    def __init__(self, where: str) -> None:
        self.edges: list[list[tuple[int, int, int]]] = []
        self.free: list[list[int]] = []
        self._where = where
        self._steps = 0

    def step(self, count: int = 1) -> None:
        """Counts work. OptionError if it is too much: no form takes long, or much memory."""
        self._steps += count
        if self._steps > STEPS:
            raise too_large(self._where)

    def new(self) -> int:
        if len(self.edges) >= NFA_STATES:
            raise too_large(self._where)
        self.edges.append([])
        self.free.append([])
        return len(self.edges) - 1

    def build(self, part: Expression, start: int) -> int:
        """Adds an expression that begins in `start`; returns where it ends."""
        self.step()
        match part:
            case Byte(low, high):
                end = self.new()
                self.edges[start].append((low, high, end))
                return end
            case Joined(parts):
                for inner in parts:
                    start = self.build(inner, start)
                return start
            case Either(options):
                end = self.new()
                for option in options:
                    self.free[self.build(option, self._after(start))].append(end)
                return end
            case Repeat(inner, least, most):
                return self._repeat(inner, least, most, start)
            case Separated(inner, separator):
                first = self._after(start)
                end = self.build(inner, first)
                self.free[self.build(separator, end)].append(first)
                return end
            case Members():
                return self._members(part, start)
            case Machine(edges, accepting):
                states, end = [self.new() for _ in edges], self.new()
                self.free[start].append(states[0])
                for state, found in zip(states, edges, strict=True):
                    self.step(len(found))
                    self.edges[state] += [(low, high, states[following]) for low, high, following in found]
                for number in accepting:
                    self.free[states[number]].append(end)
                return end
        raise TypeError(f"{part!r} is not an expression")

    def _after(self, start: int) -> int:
        """A new state that `start` reaches for free."""
        state = self.new()
        self.free[start].append(state)
        return state

    def _repeat(self, part: Expression, least: int, most: int | None, start: int) -> int:
        for _ in range(least):
            start = self.build(part, start)
        if most is None:
            again = self._after(start)
            self.free[self.build(part, again)].append(again)
            return again
        end = self.new()
        for _ in range(most - least):
            self.free[start].append(end)
            start = self.build(part, start)
        self.free[start].append(end)
        return end

    def _members(self, members: Members, start: int) -> int:
        """A row of states for each number of parts so far; the last row may mean "or more"."""
        last = max(1, members.least) if members.most is None else members.most
        counts: list[int | None] = [self._after(start), *[None] * last]
        for part, required in members.parts:
            following: list[int | None] = [None] * len(counts)
            for count in range(1, last + 1):
                sources = [count - 1, count] if count == last and members.most is None else [count - 1]
                found = [(source, state) for source in sources if (state := counts[source]) is not None]
                if not found:
                    continue
                here = self.new()
                for source, state in found:
                    self.free[self.build(members.separator, state) if source else state].append(here)
                following[count] = self._after(self.build(part, here))
            if not required:
                for count, known in enumerate(counts):
                    if known is not None:
                        target = following[count]
                        if target is None:
                            target = following[count] = self.new()
                        self.free[known].append(target)
            counts = following
        end = self.new()
        for state in counts[members.least :]:
            if state is not None:
                self.free[state].append(end)
        return end

    def closure(self, start: int, last: int) -> frozenset[int]:
        """The states that `start` reaches for free and that read a byte or are the last one."""
        seen, waiting = {start}, [start]
        while waiting:
            for state in self.free[waiting.pop()]:
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        self.step(len(seen))
        return frozenset([state for state in seen if self.edges[state] or state == last])


def compile_expression(expression: Expression, where: str = "form") -> Automaton:
    """The automaton of an expression. OptionError, naming `where`, if it needs too many states."""
    graph = _Graph(where)
    try:
        last = graph.build(expression, graph.new())
    except RecursionError:
        raise too_large(where) from None
    starts = sorted({0, *(at for edges in graph.edges for low, high, _ in edges for at in (low, high + 1) if at < 256)})
    column_of = bytes(bisect_right(starts, byte) - 1 for byte in range(256))
    closures: dict[int, frozenset[int]] = {}
    numbers: dict[frozenset[int], int] = {}

    def number(states: Iterable[int]) -> int:
        parts = []
        for state in states:
            if state not in closures:
                closures[state] = graph.closure(state, last)
            parts.append(closures[state])
        graph.step(sum(map(len, parts)))
        closed = frozenset().union(*parts)
        if closed not in numbers:
            if len(numbers) >= STATES:
                raise too_large(where)
            numbers[closed] = len(numbers)
            waiting.append(closed)
        return numbers[closed]

    waiting: list[frozenset[int]] = []
    number([0])
    rows: list[list[int]] = []
    accepting = []
    known: dict[frozenset[int], int] = {}
    for here in waiting:  # grows
        targets: list[set[int] | None] = [None] * len(starts)
        graph.step(len(starts))
        for state in here:
            for low, high, target in graph.edges[state]:
                first, end = column_of[low], column_of[high] + 1
                graph.step(end - first)
                for column in range(first, end):
                    entry = targets[column]
                    if entry is None:
                        targets[column] = {target}
                    else:
                        entry.add(target)
        row = []
        for entry in targets:
            if entry is None:
                row.append(-1)
                continue
            key = frozenset(entry)
            if key not in known:
                known[key] = number(key)
            row.append(known[key])
        rows.append(row)
        accepting.append(last in here)
    return Automaton(rows, column_of, accepting)


def both(one: Expression, other: Expression, where: str = "form") -> Machine:
    """The texts that two expressions share. OptionError, naming `where`, if they need too many states."""
    return _paired(one, other, where, True)


def without(one: Expression, other: Expression, where: str = "form") -> Machine:
    """The texts of `one` that are none of `other`. OptionError, naming `where`, if they need too many states."""
    return _paired(one, other, where, False)


def _paired(one: Expression, other: Expression, where: str, shared: bool) -> Machine:
    """Both automata read the same text; -1 is the second one's state after a text that it refuses."""
    pair = compile_expression(one, where), compile_expression(other, where)
    borders = [byte for byte in range(256) if not byte or any(a.column_of[byte] != a.column_of[byte - 1] for a in pair)]
    ends = [border - 1 for border in borders[1:]] + [255]
    columns = [(low, high, *(a.column_of[low] for a in pair)) for low, high in zip(borders, ends, strict=True)]
    alive = [[steps >= 0 for steps in a.distances(range(256))] for a in pair]
    work = 0

    def steps(states: tuple[int, int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
        nonlocal work
        work += len(columns)
        if work > PAIR_STEPS:
            raise too_large(where)
        rows = pair[0].rows[states[0]], pair[1].rows[states[1]] if states[1] >= 0 else None
        for low, high, column, other_column in columns:
            first, second = rows[0][column], -1 if rows[1] is None else rows[1][other_column]
            if second >= 0 and not alive[1][second]:
                second = -1
            if first >= 0 and alive[0][first] and (second >= 0 or not shared):
                yield low, high, (first, second)

    def accepts(states: tuple[int, int]) -> bool:
        refused = states[1] < 0 or not pair[1].accepting[states[1]]
        return pair[0].accepting[states[0]] and refused != shared

    return _alive(explored((0, 0), steps, accepts, where))


def _alive(machine: Machine) -> Machine:
    """The same texts, without the states from which none is complete."""
    before: list[list[int]] = [[] for _ in machine.edges]
    for state, edges in enumerate(machine.edges):
        for _, _, following in edges:
            before[following].append(state)
    found = set(machine.accepting)
    waiting = list(found)
    while waiting:
        for state in before[waiting.pop()]:
            if state not in found:
                found.add(state)
                waiting.append(state)
    numbers = {state: number for number, state in enumerate(sorted({0, *found}))}
    kept = [
        tuple([(low, high, numbers[following]) for low, high, following in machine.edges[state] if following in found])
        for state in numbers
    ]
    return Machine(tuple(kept), frozenset(numbers[state] for state in machine.accepting))


def too_large(where: str) -> OptionError:
    return OptionError(
        "this form is too large", where=where, hint="Allow fewer repetitions and alternatives, or less nesting"
    )
