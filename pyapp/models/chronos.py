"""Chronos (Ansari et al. 2024, arXiv 2403.07815): a T5 whose words are bins of scaled values. It writes paths of the
future, of which quantiles are made.

Files are those of T5, with a `chronos_config` in config.json.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import no_grad, ops
from pyapp.engine.lazy import np
from pyapp.nn import Module
from pyapp.nn.forecasting import Forecaster, Wanted, of_paths
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory, Decoding
from pyapp.nn.sequence_to_sequence.t5 import T5

from .loading.config import FLOAT_LIMIT, require
from .loading.forecasting_config import LONGEST, MOST_SAMPLES, check_count
from .loading.t5_config import T5Config, t5_adapted

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_TYPES = ("chronos",)  # "t5" in config.json
BASE = "transformer"
adapted = t5_adapted
MOST_WORDS = 1 << 20


@dataclass(frozen=True)
class Config(T5Config):
    """The fields of T5, and `chronos_config`: how series become words, and how paths are drawn."""

    chronos_config: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        own = self.chronos_config
        kind, form = own.get("tokenizer_class"), own.get("model_type")
        require(kind == "MeanScaleUniformBins", f"chronos_config has tokenizer_class {kind!r:.60}, which is not known")
        require(form == "seq2seq", f"chronos_config has model_type {form!r:.60}: only seq2seq is supported")
        for name, most, least in (
            ("context_length", LONGEST, 1), ("prediction_length", LONGEST, 1), ("n_tokens", MOST_WORDS, 8),
            ("n_special_tokens", MOST_WORDS, 1), ("num_samples", MOST_SAMPLES, 1), ("top_k", MOST_WORDS, 0),
            ("pad_token_id", MOST_WORDS, 0), ("eos_token_id", MOST_WORDS, 0),
        ):  # fmt: skip
            check_count(f"chronos_config.{name}", own.get(name), most, least)
        words, special = own["n_tokens"], own["n_special_tokens"]
        require(words <= self.vocab_size, f"chronos_config.n_tokens is {words:,}, of {self.vocab_size:,} words")
        require(special < words - 3, f"chronos_config.n_special_tokens is {special:,}, of {words:,} words")
        for name in ("pad_token_id", "eos_token_id"):
            require(own[name] < special, f"chronos_config.{name} is {own[name]:,}, of {special:,} special tokens")
        for name in ("temperature", "top_p"):
            value: Any = own.get(name)
            plausible = type(value) in (int, float) and 0 < value <= (1 if name == "top_p" else 100)
            require(plausible, f"chronos_config.{name} is {value!r:.40}, expected a number above 0")
        require(type(own.get("use_eos_token")) is bool, "chronos_config.use_eos_token is not true or false")
        limits = own.get("tokenizer_kwargs")
        pair: list[Any] = [limits.get("low_limit"), limits.get("high_limit")] if isinstance(limits, dict) else []
        plausible = bool(pair) and all(type(x) in (int, float) and abs(x) < FLOAT_LIMIT for x in pair)
        require(plausible and pair[0] < pair[1], f"chronos_config.tokenizer_kwargs is {limits!r:.60}")


class Bins:
    """The bins of scaled values: `centres`, and where they meet."""

    def __init__(self, config: Config) -> None:
        own = config.chronos_config
        self.special, self.words = own["n_special_tokens"], own["n_tokens"]
        self.end = own["eos_token_id"] if own["use_eos_token"] else None
        low, high = (float(own["tokenizer_kwargs"][name]) for name in ("low_limit", "high_limit"))
        self.centres = np.linspace(low, high, self.words - self.special - 1, dtype=np.float32)
        middles = (self.centres[1:] + self.centres[:-1]) / np.float32(2)
        self.edges = np.concatenate([[-1e20], middles, [1e20]]).astype(np.float32)

    def words_of(self, past: NDArray[np.float32]) -> tuple[NDArray[np.int64], np.float32]:
        """past (T,) → the words (T,), or (T + 1,) with the end, and the scale: the mean of the absolute values."""
        scale = np.abs(past).mean(dtype=np.float32)
        scale = scale if scale > 0 else np.float32(1)
        found = np.searchsorted(self.edges, past / scale, side="right") + self.special
        found = np.clip(found, 0, self.words - 1)
        return found if self.end is None else np.append(found, self.end), scale

    def values_of(self, words: NDArray[np.int64], scale: np.float32) -> NDArray[np.float64]:
        """Words of any shape → the values."""
        places = np.clip(words - self.special - 1, 0, len(self.centres) - 1)
        return (self.centres[places] * scale).astype(np.float64)


class Chronos(T5, Forecaster):
    """The T5. ids are the words of series, tokens those of their future so far."""

    draws = True

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.reads, self.horizon = (config.chronos_config[name] for name in ("context_length", "prediction_length"))
        self.bins = Bins(config)

    def forecasts(
        self, past: NDArray[np.float32], wanted: Wanted
    ) -> Generator[int, None, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Beyond its horizon the model goes on with the medians of the paths that it wrote."""
        [known], generator = past, wanted.generator()
        paths = np.empty((wanted.samples or self.config.chronos_config["num_samples"], 0))
        while paths.shape[1] < wanted.horizon:
            words, scale = self.bins.words_of(known)
            count = min(wanted.horizon - paths.shape[1], self.horizon)
            before = paths.shape[1]
            written = np.empty((len(paths), 0), np.int64)
            for column in self._written(words, len(paths), count, generator):
                written = np.concatenate([written, column[:, None]], 1)
                yield before + written.shape[1]
            more = self.bins.values_of(written, scale)
            paths = np.concatenate([paths, more], 1)
            # The lower of two middle paths, as torch's median.
            middle = np.sort(more, 0)[(len(more) - 1) // 2]
            known = np.concatenate([known, middle.astype(np.float32)])[-self.reads :]
        return of_paths(paths[:, None], wanted)

    def _written(
        self, words: NDArray[np.int64], rows: int, count: int, generator: Any
    ) -> Generator[NDArray[np.int64], None, None]:
        """Draws `count` words of each of `rows` paths after a series: yields the next one (rows,) of all."""
        own = self.config.chronos_config
        ids = ops.from_numpy(words[None]).to(self.device)
        with no_grad():
            memory = CachedMemory(self.encode(ids), None, rows, count + 1)
        decoding = Decoding(self, memory)
        tokens = np.full(rows, self.config.decoder_start_token_id, np.int64)
        for number in range(count):
            logits = decoding.step(tokens.tolist()).to("float32").cpu().numpy().astype(np.float64)  # (rows, V)
            logits[:, own["eos_token_id"]] = -np.inf  # a path does not end before its time
            tokens = sampled(logits / own["temperature"], own["top_k"], own["top_p"], generator)
            yield tokens
            if number + 1 < count:
                with no_grad():
                    memory.advance()


def sampled(logits: NDArray[np.float64], top_k: int, top_p: float, generator: Any) -> NDArray[np.int64]:
    """Draws a word of each row of logits (R, V): of the `top_k` likeliest (0: all), of those that together have the
    probability `top_p`.
    """
    order = np.arange(logits.shape[1])[None].repeat(len(logits), 0)  # (R, V)
    if 0 < top_k < logits.shape[1]:  # sorting all would take longer than the decoder
        order = np.argpartition(-logits, top_k - 1, 1)[:, :top_k]
    best = np.take_along_axis(logits, order, 1)
    if top_p < 1:
        likeliest = np.argsort(-best, 1, kind="stable")
        order, best = np.take_along_axis(order, likeliest, 1), np.take_along_axis(best, likeliest, 1)
    chances = np.exp(best - best.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    if top_p < 1:
        chances = np.where(chances.cumsum(1) - chances < top_p, chances, 0)
    sums = chances.cumsum(1)
    places = (sums <= generator.random((len(sums), 1)) * sums[:, -1:]).sum(1)
    found: NDArray[np.int64] = np.take_along_axis(order, np.minimum(places, order.shape[1] - 1)[:, None], 1)[:, 0]
    return found


TASKS: Mapping[str, Callable[[Config], Module]] = {"time-series-forecasting": Chronos}
