"""Continuous batching: texts join and leave, and none depends on the others."""

from __future__ import annotations

import gc
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Error, Event, Item, Token
from pyapp.models import load_model
from pyapp.nn import quantize
from pyapp.serve.blocks import START, BlockPool, name_of
from pyapp.serve.scheduler import BLOCK, TOGETHER, Scheduler
from pyapp.serve.writing import Text
from pyapp.text.generation.generate import Session, generate
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.session import PROMPT_PASS
from tests.models.test_decoders import make
from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only  # the page is not a server

PROMPTS = ["a", "the cat sat", "x" * 300, "hello there", "y" * 130, "once upon a time", "x" * 290 + "z"]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("chat") / "model"
    write_chat_model(folder, dim=32)
    return load_model(folder)


class Client:
    """A text of the scheduler, and what came of it."""

    def __init__(self, loaded: Any, prompt: str, cancel: Cancel | None = None, **options: Any) -> None:
        self.events: list[Event] = []
        ids = loaded.tokenizer.encode(prompt, eos=False)
        settings = SamplingOptions(**({"temperature": 0, "max_new_tokens": 12, "logprobs": 0} | options))
        self.text = Text(ids, settings, frozenset({257}), self.events.append, cancel=cancel or Cancel())

    @property
    def scored(self) -> list[tuple[int | None, float | None]]:
        return [(event.id, event.logprob) for event in self.events if isinstance(event, Token)]

    @property
    def done(self) -> Done:
        assert isinstance(self.events[-1], Done), self.events[-1:]
        return self.events[-1]


def run(scheduler: Scheduler, *clients: Client, apart: int = 0) -> None:
    """All texts; each joins `apart` turns after the one before it."""
    waiting = list(clients)
    turn, more = 0, True
    while waiting or more:
        if waiting and (not apart or turn % apart == 0):
            scheduler.add(waiting.pop(0).text)
        if not waiting or apart:
            more = scheduler.turn()
        turn += 1
        assert turn < 2000


@pytest.mark.parametrize("kind", ["float32", "q8_0", "q4_0"])
def test_a_text_is_the_same_alone_and_in_company(kind: str, tmp_path: Path) -> None:
    loaded = quantized(tmp_path, kind)
    alone = []
    for prompt in PROMPTS:
        client = Client(loaded, prompt)
        run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400), client)
        alone.append(client.scored)
        assert len(client.scored) == 12
    for rows, apart in ((7, 0), (3, 2)):
        clients = [Client(loaded, prompt) for prompt in PROMPTS]
        scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=rows, context=400)
        assert kind == "float32" or scheduler.rows_multiple == 1  # no rows are computed for nobody
        run(scheduler, *clients, apart=apart)
        assert [client.scored for client in clients] == alone, (rows, apart)  # tokens, and every bit of their scores
        again = [Client(loaded, prompt) for prompt in reversed(PROMPTS)]  # with what is left in the cache
        run(scheduler, *again)
        assert [client.scored for client in reversed(again)] == alone, (rows, apart)
        assert scheduler.reused_tokens > 2 * PROMPT_PASS


def test_many_texts_are_the_same_as_alone(loaded: Any) -> None:
    """Products of many rows may sum in another order: then so many rows do not run together."""
    short = [prompt for prompt in PROMPTS if len(prompt) < 40]
    alone = [Client(loaded, prompt) for prompt in short]
    for client in alone:
        run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=64), client)
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=64, context=64)
    assert 16 <= scheduler.most_rows <= 64
    clients = [Client(loaded, prompt) for prompt in short * 16]
    run(scheduler, *clients)
    assert [client.scored for client in clients] == [client.scored for client in alone] * 16


def test_greedy_texts_are_those_of_generate(loaded: Any) -> None:
    clients = [Client(loaded, prompt) for prompt in PROMPTS]
    run(Scheduler(loaded.model, loaded.tokenizer, context=400), *clients)
    for prompt, client in zip(PROMPTS, clients, strict=True):
        options = SamplingOptions(temperature=0, max_new_tokens=12, stop_tokens=(257,))
        events = list(generate(Session(loaded.model, 400), loaded.tokenizer, prompt, options))
        assert [id for id, _ in client.scored] == [event.id for event in events if isinstance(event, Token)]


def test_the_log_tells_of_turns(loaded: Any, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=4, context=400)
    run(scheduler, Client(loaded, "the cat sat"))
    assert not caplog.records
    clients = [Client(loaded, prompt) for prompt in PROMPTS[:4]]
    with caplog.at_level(logging.DEBUG, "pyapp.serve"):
        run(scheduler, *clients)
    turns = [record.fields for record in caplog.records if record.getMessage() == "turn"]  # type: ignore[attr-defined]
    reused = scheduler.reused_tokens
    assert sum(turn["prompt_tokens"] for turn in turns) == sum(len(client.text.ids) for client in clients) - reused
    assert sum(turn["texts"] for turn in turns) == sum(len(client.scored) - 1 for client in clients)
    assert all(0 < turn["processor_seconds"] and 0 < turn["seconds"] < 60 for turn in turns)


def test_texts_join_and_leave_between_steps(loaded: Any) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=2, context=400)
    long, short, late = (
        Client(loaded, "a", max_new_tokens=40),
        Client(loaded, "b", max_new_tokens=3),
        Client(loaded, "c"),
    )
    run(scheduler, long, short, late)
    assert [len(client.scored) for client in (long, short, late)] == [40, 3, 12]
    assert scheduler.steps < 45  # those of the longest alone: the third began when the second had left
    assert scheduler.load.running == scheduler.load.waiting == 0


def test_a_long_prompt_does_not_stop_the_others(loaded: Any) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=4, context=512)
    first = Client(loaded, "a", max_new_tokens=30)
    scheduler.add(first.text)
    scheduler.turn()
    before = len(first.scored)
    scheduler.add(Client(loaded, "w" * 400).text)
    for turn in range(1, 4):  # the passes of the prompt
        scheduler.turn()
        assert len(first.scored) == before + turn


class Passes:
    """A model that counts its passes: the rows of each."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows = model, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def forward_cached(self, tokens: Any, position: Any, cache: Any, last_only: bool = True) -> Any:
        self.rows.append(tokens.numel())
        return self.model.forward_cached(tokens, position, cache, last_only)


def test_prompts_are_read_together_and_with_the_steps_of_others(tmp_path: Path) -> None:
    """One pass for pieces of several prompts and the texts that are being written; nobody's tokens change by that."""
    loaded = quantized(tmp_path, "q8_0")
    prompts = ["abcde fghij " * 3, "k" * 50, "lm" * 35, "n" * 200, "o" * 20]
    model = Passes(loaded.model)
    scheduler = Scheduler(model, loaded.tokenizer, rows=8, context=400)  # type: ignore[arg-type]
    writing = Client(loaded, "first", max_new_tokens=40)
    scheduler.add(writing.text)
    scheduler.turn()
    cancel = Cancel()
    clients = [Client(loaded, prompt, cancel if prompt[0] == "n" else None) for prompt in prompts]
    for client in clients:
        scheduler.add(client.text)
    total = sum(len(client.text.ids) for client in clients)
    model.rows.clear()
    scheduler.turn()
    assert model.rows == [1 + PROMPT_PASS] and len(writing.scored) == 2  # its token, and pieces of three prompts
    assert [len(client.scored) for client in clients] == [1, 1, 0, 0, 0]
    scheduler.turn()
    assert len(model.rows) == 2 and model.rows[1] == 3 + PROMPT_PASS and len(writing.scored) == 3
    assert sum(model.rows) - 4 < total
    cancel.set()  # in the middle of its prompt
    run(scheduler)
    assert clients[3].done.reason == "cancelled" and not clients[3].scored
    for client, prompt in zip([*clients[:3], clients[4]], [*prompts[:3], prompts[4]], strict=True):
        assert client.scored == alone_of(loaded, prompt).scored, prompt
    lone = Client(loaded, "first", max_new_tokens=40)
    run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400), lone)
    assert writing.scored == lone.scored
    assert scheduler.load.used_blocks == 0


def test_cancelled_texts_leave_at_the_next_step(loaded: Any) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400)
    cancels = Cancel(), Cancel()
    running, waiting = (Client(loaded, "a", cancel, max_new_tokens=300) for cancel in cancels)
    for client in (running, waiting):
        scheduler.add(client.text)
    scheduler.turn()
    for cancel in cancels:
        cancel.set()
    written = len(running.scored)
    assert not scheduler.turn()
    assert running.done.reason == waiting.done.reason == "cancelled"
    assert len(running.scored) == written and not waiting.scored


def test_settings_are_those_of_each_text(loaded: Any) -> None:
    drawn = {"temperature": 1.5, "seed": 3}
    clients = [
        Client(loaded, "a", **drawn), Client(loaded, "a", **drawn), Client(loaded, "a", temperature=1.5, seed=4),
        Client(loaded, "a", choice=("yes", "no")), Client(loaded, "a", logit_bias={120: 100}),
        Client(loaded, "a", logprobs=3, frequency_penalty=2.0, repetition_penalty=1.5),
    ]  # fmt: skip
    run(Scheduler(loaded.model, loaded.tokenizer, context=100), *clients)
    texts = ["".join(event.text for event in client.events if isinstance(event, Token)) for client in clients]
    assert texts[0] == texts[1] != texts[2]
    assert texts[3] in ("yes", "no") and clients[3].done.reason == "stop"
    assert texts[4] == "x" * 12
    assert len(clients[5].events[0].top_logprobs) == 3  # type: ignore[attr-defined, arg-type]


def test_a_text_that_fails_fails_alone(loaded: Any) -> None:
    good, impossible, long = Client(loaded, "a"), Client(loaded, "a", regex="b{400}"), Client(loaded, "a" * 200)
    scheduler = Scheduler(loaded.model, loaded.tokenizer, context=100)
    run(scheduler, impossible, long, good)
    assert isinstance(impossible.events[-1], Error) and isinstance(long.events[-1], Error)
    assert len(good.scored) == 12


def test_texts_end_where_the_context_does(loaded: Any) -> None:
    client = Client(loaded, "abc", max_new_tokens=None)
    beside = Client(loaded, "x", max_new_tokens=30)
    run(Scheduler(loaded.model, loaded.tokenizer, context=16), client, beside)
    assert client.done.reason == beside.done.reason == "context"
    assert len(client.scored) == 14 and len(beside.scored) == 16


def test_the_cache_keeps_to_its_memory(loaded: Any) -> None:
    """A memory for three texts of full length: more run at once while they are short."""
    row = loaded.model.new_cache(100, texts=1).nbytes
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=16, context=100, cache_bytes=4 * row)
    clients = [Client(loaded, f"{number}") for number in range(12)]
    for client in clients:
        scheduler.add(client.text)
    scheduler.turn()
    assert scheduler.load.running > 4
    run(scheduler)
    assert all(len(client.scored) == 12 for client in clients)
    assert scheduler._cache.nbytes <= 4 * row
    with pytest.raises(OptionError, match="--cache-memory"):
        Scheduler(loaded.model, loaded.tokenizer, context=100, cache_bytes=row // 2)


def quantized(tmp_path: Path, kind: str) -> Any:
    write_chat_model(tmp_path / "model", dim=32)
    found = load_model(tmp_path / "model")
    if kind != "float32":
        quantize(found.model, kind)
    return found


@pytest.mark.parametrize("kind", ["float32", "q8_0"])
def test_texts_that_give_their_memory_back_stay_the_same(kind: str, tmp_path: Path) -> None:
    """A memory that is too small for all: some are read anew, in passes or in the same steps."""
    loaded = quantized(tmp_path, kind)
    long = {"max_new_tokens": 90}
    prompts = [*PROMPTS[:2], "z" * 140, PROMPTS[3]]
    alone = [Client(loaded, prompt, **long) for prompt in prompts]
    for client in alone:
        run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=260), client)
    small = loaded.model.new_cache(BLOCK, texts=1).nbytes * 11
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=4, context=260, cache_bytes=small)
    assert scheduler.rows_alike == (kind != "float32")
    clients = [Client(loaded, prompt, **long) for prompt in prompts]
    run(scheduler, *clients)
    assert scheduler.preempted > 0
    assert [client.scored for client in clients] == [client.scored for client in alone]
    assert scheduler.load.used_blocks == 0


@pytest.mark.parametrize("name", ["mamba", "mamba2", "lfm2"])
def test_texts_of_a_model_with_states(name: str, tmp_path: Path) -> None:
    """Each text has a state, in company too; a state that was given back is made anew, and nothing is guessed."""
    write_chat_model(tmp_path / "model", dim=32)
    tokenizer = load_model(tmp_path / "model").tokenizer
    sizes = {"vocab_size": tokenizer.vocab_size, "max_position_embeddings": 400}
    loaded = SimpleNamespace(tokenizer=tokenizer, model=make(name, 0, **sizes))
    alone = [alone_of(loaded, prompt) for prompt in PROMPTS]
    state = loaded.model.new_cache(400, texts=1).nbytes
    scheduler = Scheduler(
        loaded.model, tokenizer, rows=3, context=400, cache_bytes=3 * state, lookup=4,
    )  # fmt: skip  # one state is for rows that only fill a step
    clients = [Client(loaded, prompt) for prompt in PROMPTS]
    run(scheduler, *clients, apart=2)
    first = Client(loaded, "b" * 200)
    first.text.priority = -1
    late = [Client(loaded, prompt, max_new_tokens=40) for prompt in PROMPTS[:2]]
    run(scheduler, *late, first, apart=9)
    assert [client.scored for client in clients] == [client.scored for client in alone]
    assert first.scored == alone_of(loaded, "b" * 200).scored
    assert late[1].scored == alone_of(loaded, PROMPTS[1], max_new_tokens=40).scored
    assert scheduler.preempted > 0 and scheduler.guessed_tokens == scheduler.reused_tokens == 0
    assert scheduler.load.used_blocks == 0
    if name == "lfm2":  # which has keys and values, too
        return
    with pytest.raises(OptionError, match="cache_type.*float32"):
        Scheduler(loaded.model, tokenizer, context=400, cache_type="q8_0")


def test_prompts_that_begin_alike_are_read_once(tmp_path: Path) -> None:
    """Blocks of prompts and of answers are shared, also while they are in use."""
    loaded = quantized(tmp_path, "q8_0")
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=4, context=400)
    system = "you are a parrot " * 9  # 153 tokens: four blocks and a part
    first, second = Client(loaded, system + "one"), Client(loaded, system + "two")
    run(scheduler, first, second)
    assert [client.done.results["reused_tokens"] for client in (first, second)] == [0, 4 * BLOCK]
    assert second.scored == alone_of(loaded, system + "two").scored
    answer = Client(loaded, "tell me", max_new_tokens=80)
    run(scheduler, answer)
    ids = [*answer.text.ids, *(id for id, _ in answer.scored if id is not None)]
    turn = Client(loaded, "")
    turn.text.ids = [*ids, 104, 105]  # a conversation goes on: what the model has written needs no reading either
    run(scheduler, turn)
    assert turn.done.results["reused_tokens"] == (len(ids) - 1) // BLOCK * BLOCK > len(answer.text.ids)
    fresh = Client(loaded, "")
    fresh.text.ids = turn.text.ids
    run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400), fresh)
    assert turn.scored == fresh.scored
    same = [Client(loaded, "w" * 200, seed=seed, temperature=1.0) for seed in range(3)]  # as `n` of a request
    run(scheduler, *same)
    assert [client.done.results["reused_tokens"] for client in same] == [0, 6 * BLOCK, 6 * BLOCK]
    assert scheduler.load.kept_blocks > 0 and scheduler.load.used_blocks == 0


def alone_of(loaded: Any, prompt: str, **options: Any) -> Client:
    client = Client(loaded, prompt, **options)
    run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400), client)
    return client


def scores_of(client: Client) -> list[Token]:
    """The tokens of the prompt with their log-probabilities, which come before the first new one."""
    assert isinstance(client.events[0], Item) and sum(isinstance(event, Item) for event in client.events) == 1
    found: list[Token] = client.events[0].values["tokens"]
    return found


@pytest.mark.parametrize("kind", ["float32", "q8_0"])
def test_scores_of_a_prompt_are_the_same_in_company(kind: str, tmp_path: Path) -> None:
    """With others, after a prompt that begins alike, and where the text gives its place up while it is read."""
    loaded = quantized(tmp_path, kind)

    def scored(most: int = 12) -> Client:
        client = Client(loaded, PROMPTS[2], max_new_tokens=most)
        client.text.scored = 2
        return client

    alone, none = scored(), scored(0)
    run(Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400), alone)
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=4, context=400)
    run(scheduler, Client(loaded, PROMPTS[2]), none, *(Client(loaded, prompt) for prompt in PROMPTS[3:6]))
    assert scores_of(none) == scores_of(alone) and none.done.reason == "length" and not none.scored
    assert len(scores_of(alone)) == 300 and scores_of(alone)[0].logprob is None
    assert all(len(token.top_logprobs or ()) == 2 for token in scores_of(alone)[1:])
    again = scored()
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=1, context=400)
    scheduler.add(again.text)
    for _ in range(2):
        scheduler.turn()  # 256 tokens of its prompt
    urgent = Client(loaded, "urgent")
    urgent.text.priority = -1
    run(scheduler, urgent)
    assert scheduler.preempted == 1 and scores_of(again) == scores_of(alone) and again.scored == alone.scored
    assert scheduler.load.used_blocks == 0


def test_texts_of_lower_priority_go_first(loaded: Any) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=1, context=100)
    ends: list[str] = []
    clients = {}
    for name, priority in (("later", 5), ("usual", 0), ("usual again", 0), ("urgent", -1)):
        client = clients[name] = Client(loaded, name)
        emit = client.text.emit
        client.text.emit = lambda event, name=name, emit=emit: (  # type: ignore[misc]
            emit(event), ends.append(name) if isinstance(event, Done) else None)  # fmt: skip
        client.text.priority = priority
        scheduler.add(client.text)
        scheduler.turn()  # the first one runs when the others come
    run(scheduler)
    assert ends == ["urgent", "usual", "usual again", "later"] and scheduler.preempted >= 1
    for name, client in clients.items():
        assert client.scored == alone_of(loaded, name).scored


def test_the_pool_of_blocks() -> None:
    pool, names = BlockPool(4, first=1), [name_of(START, [number]) for number in range(4)]
    taken = [pool.take() for _ in range(4)]
    assert taken == [1, 2, 3, 4] and pool.take() is None and pool.used == 4
    for block, name in zip([1, 2, 3], names, strict=False):
        pool.name(block, name)
    assert pool.share(names[0]) == 1 and pool.share(names[3]) is None
    pool.release([1, 2, 3, 4])
    assert pool.used == 1 and pool.kept == 2 and pool.available == 3
    assert pool.take() == 4  # it holds nothing of use
    assert pool.take() == 3 and pool.known(names[2]) is None  # the end of a text goes before its beginning
    assert pool.share(names[1]) == 2 and pool.take() is None
    pool.release([1])
    assert pool.take() == 1


def test_rows_that_the_kernels_round_differently_are_found(loaded: Any) -> None:
    assert Scheduler(loaded.model, loaded.tokenizer, context=64).rows_multiple in (1, TOGETHER)


def test_a_step_that_fails_ends_all_and_the_next_ones_work(loaded: Any) -> None:
    scheduler = Scheduler(loaded.model, loaded.tokenizer, context=64)
    client = Client(loaded, "a")
    scheduler.add(client.text)
    scheduler.turn()
    scheduler.fail(RuntimeError("broken"))
    assert isinstance(client.events[-1], Error)
    after = Client(loaded, "a")
    run(scheduler, after)
    assert len(after.scored) == 12


def test_its_memory_is_free_without_a_garbage_collection(loaded: Any) -> None:
    gc.disable()
    try:
        scheduler = Scheduler(loaded.model, loaded.tokenizer, rows=2, context=400)
        run(scheduler, *[Client(loaded, prompt) for prompt in PROMPTS[:3]])
        gone = ref(scheduler)
        del scheduler
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["float32", "q8_0"])
def test_guesses_change_no_token_of_texts_in_a_batch(kind: str, tmp_path: Path) -> None:
    """Greedy, drawn, of a form, with penalties; some stop in the middle of guesses, and memory is short."""
    loaded = quantized(tmp_path, kind)
    form = {"type": "object", "properties": {"a": {"type": "array", "items": {"enum": [10, 20]}, "maxItems": 6}}}
    kinds: list[dict[str, Any]] = [
        {"max_new_tokens": 60}, {"temperature": 0.7, "seed": 3, "max_new_tokens": 60},
        {"json_schema": form, "max_new_tokens": 90}, {"repetition_penalty": 1.2, "frequency_penalty": 0.1},
        {"max_new_tokens": 7, "logprobs": 2}, {"max_new_tokens": 60, "stop": ("ab", ", ")},
    ]  # fmt: skip
    asked = [(prompt, options) for options in kinds for prompt in ("a", "ab" * 20, "the cat the cat the")]

    def written(lookup: int, rows: int, memory: int = 1 << 30) -> tuple[list[Any], Scheduler]:
        scheduler = Scheduler(
            loaded.model, loaded.tokenizer, rows=rows, context=200, cache_bytes=memory, lookup=lookup
        )  # fmt: skip
        clients = [Client(loaded, prompt, **options) for prompt, options in asked]
        for client in clients if rows == 1 else ():
            run(scheduler, client)
        if rows > 1:
            run(scheduler, *clients, apart=2)
        assert scheduler.load.used_blocks == 0
        return [(client.scored, client.done.reason) for client in clients], scheduler

    alone, plain = written(0, 1)
    assert plain.guessed_tokens == 0
    block = Scheduler(loaded.model, loaded.tokenizer, rows=1, context=BLOCK).cache_nbytes // 3
    for rows, memory in ((1, 1 << 30), (8, 1 << 30), (8, 9 * block)):
        found, scheduler = written(6, rows, memory)
        assert found == alone, (rows, memory)  # to the last bit of the log-probabilities
        assert 0 < scheduler.accepted_tokens <= scheduler.guessed_tokens
        assert rows > 1 or scheduler.steps + scheduler.accepted_tokens == plain.steps
        assert (memory < 1 << 30) == (scheduler.preempted > 0)
