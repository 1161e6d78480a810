"""Texts of models that write by masked diffusion: all new tokens begin as masks; in each step the model predicts those
that are still masked, and the surest predictions stay.

The loops are LLaDA's (Nie et al. 2025, arXiv 2502.09992), which writes block after block with as many tokens in each
step, and Dream's (Ye et al. 2025, arXiv 2508.15487), whose steps follow times from 1 to nearly 0.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from math import inf, isnan, log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, no_grad, ops
from pyapp.engine.ops.random import Generator, rand
from pyapp.errors import OptionError, check_settings
from pyapp.events import Cancel, Done, Draft, Event, Progress
from pyapp.nn.encoders.masked_diffusion import Denoising, MaskedDiffusionModel
from pyapp.text.generation.options import SamplingOptions, check_number
from pyapp.text.generation.sampling import not_a_number
from pyapp.text.generation.session import Session, context_hint
from pyapp.text.generation.speculation import Drafter
from pyapp.text.generation.writer import Clock, Writer
from pyapp.text.tokenization.tokenizer import Tokenizer

MOST_STEPS = 1 << 16  # of a text: more than any model has places for
NEW_TOKENS = 128  # unless more or fewer are asked for: all of them are computed in every step
MASKED = "▒"
# The settings of SamplingOptions that hold here; the others must have their defaults.
FOLLOWED = (
    "temperature", "top_k", "top_p", "seed", "max_new_tokens", "stop", "stop_tokens", "context", "denoising",
)  # fmt: skip
REMASKING = ("low_confidence", "random", "maskgit_plus", "topk_margin", "entropy", "origin")


@dataclass(frozen=True)
class DenoisingOptions:
    """The settings of a text by masked diffusion. OptionError, with the name of the setting, for a value out of its
    range.

    - steps: passes of the model; None: one for each new token. Fewer are faster, and a step fills several places.
    - block_length: the text is written in blocks of so many tokens, each finished before the next; None: as the model
      does.
    - remasking: which predictions stay, None: as the model does. "low_confidence": the most probable ones (LLaDA);
      "maskgit_plus": the same by the probabilities after temperature, top_p and top_k (Chang et al. 2022, arXiv
      2202.04200); "topk_margin": those that are most ahead of the second one (Kim et al. 2025, arXiv 2502.06768);
      "entropy": those of the smallest entropy; "random": any; "origin": any, each by a chance that the step's time
      gives (Austin et al. 2021, arXiv 2107.03006), which needs a model with times and excludes blocks.
    - remasking_temperature: above 0, the choice of what stays is drawn.
    - guidance_scale: above 1, logits move away from those without the prompt (Ho and Salimans 2022, arXiv 2207.12598),
      which takes twice the time; LLaDA's cfg_scale plus 1.
    """

    steps: int | None = None
    block_length: int | None = None
    remasking: str | None = None
    remasking_temperature: float = 0.0
    guidance_scale: float = 1.0

    def __post_init__(self) -> None:
        for name, most in (("steps", MOST_STEPS), ("block_length", 1 << 31)):
            if getattr(self, name) is not None:
                check_number(f"denoising.{name}", getattr(self, name), 1, most, whole=True)
        if self.remasking is not None and self.remasking not in REMASKING:
            raise OptionError(
                f"must be one of {', '.join(REMASKING)}, not {self.remasking!r:.60}", where="denoising.remasking"
            )
        check_number("denoising.remasking_temperature", self.remasking_temperature, 0, 100)
        check_number("denoising.guidance_scale", self.guidance_scale, 1, 100)

    @classmethod
    def of(cls, values: Mapping[str, Any] | None) -> DenoisingOptions:
        """From JSON values; unknown names are refused."""
        check_settings(values or {}, (entry.name for entry in fields(cls)), "denoising.")
        return cls(**(values or {}))


def check_followed(options: SamplingOptions) -> DenoisingOptions:
    """The settings of denoising. OptionError for another setting that these models cannot follow."""
    for entry in fields(options):
        if entry.name not in FOLLOWED and getattr(options, entry.name) != entry.default:
            raise OptionError(
                "a model that writes by masked diffusion does not follow it", where=entry.name,
                hint=f"It follows {', '.join(FOLLOWED)}",
            )  # fmt: skip
    return DenoisingOptions.of(options.denoising)


def denoise(
    session: Session, tokenizer: Tokenizer, ids: Sequence[int], options: SamplingOptions, cancel: Cancel,
    drafter: Drafter | None = None, continuing: bool = True, stops: Collection[int] | None = None,
) -> Iterator[Event]:  # fmt: skip
    """As text.generation.generate.generate_from, with a Draft after each step. Tokens come as soon as all before them
    are known. `stops`: the ids that end the text; None: the tokenizer's and those of the options. OptionError for a
    setting that does not apply, and for a prompt that leaves no room.
    """
    model: Any = session.model
    chosen = check_followed(options)
    if drafter is not None:
        raise OptionError("a model that writes by masked diffusion takes no guesses", where="draft")
    room = session.capacity - len(ids)
    count = min(NEW_TOKENS if options.max_new_tokens is None else options.max_new_tokens, room)
    if room < 0:
        raise OptionError(
            f"{len(ids):,} tokens are too long: there is room for {session.capacity:,}", where="prompt",
            hint=f"Shorten it. {context_hint(session)}".rstrip(),
        )  # fmt: skip
    if stops is None:
        stops = tokenizer.stop_ids.union(options.stop_tokens)
    clock, writer = Clock(), Writer(tokenizer, options, continuing)
    yield Progress("prompt", len(ids), len(ids), "tokens")
    run = _Run(model, ids, count, chosen, options)
    reason = "length" if count == options.max_new_tokens or options.max_new_tokens is None else "context"
    stopped = cancel.is_set()
    reason = "cancelled" if stopped else reason
    for _ in () if stopped else run.steps():
        for token in run.known():
            clock.token_done()
            if token in stops:
                reason = "stop"
                break
            yield writer.write(token)
            if writer.stop_string is not None:
                reason = "stop_string"
                break
        if reason in ("stop", "stop_string"):
            break
        yield Draft(run.draft(tokenizer))
        if cancel.is_set():
            reason = "cancelled"
            break
    if rest := writer.finish():
        yield rest
    session.tokens = [*ids, *run.text[len(ids) : len(ids) + writer.count]]
    session.position = len(session.tokens)
    yield from clock.metrics(0)
    results: dict[str, Any] = {
        "prompt_tokens": len(ids), "new_tokens": writer.count, "seed": run.seed, "steps": run.passes,
    }  # fmt: skip
    yield Done(reason, results | ({"stop_string": writer.stop_string} if writer.stop_string else {}))


class _Run:
    """The text of one run: `text` are its tokens so far, masks among them; `passes` counts those of the model."""

    def __init__(
        self, model: MaskedDiffusionModel, ids: Sequence[int], count: int, chosen: DenoisingOptions,
        options: SamplingOptions,
    ) -> None:  # fmt: skip
        self.model, self.options, self.chosen, self.count = model, options, chosen, count
        self.form: Denoising = model.denoising
        self.remasking = chosen.remasking or self.form.remasking
        self.block_length = chosen.block_length or self.form.block_length
        self.times = self.form.least_time if self.block_length is None else None
        if self.remasking == "origin" and self.times is None:
            where = "denoising.remasking"
            raise OptionError("origin needs a model with times, and no blocks", where=where, hint="Take another one")
        self.prompt = len(ids)
        self.text = [*ids, *[self.form.mask] * count]
        self.passes = 0
        self._next, self._end = len(ids), len(ids)
        self.seed = secrets.randbelow(1 << 53) if options.seed is None else int(options.seed)
        self._random = Generator(self.seed)
        self._device: Device = model.device

    def known(self) -> Iterator[int]:
        """The tokens that have become known since the last call, up to the first that is not."""
        while self._next < len(self.text) and self.text[self._next] != self.form.mask:
            self._next += 1
            yield self.text[self._next - 1]

    def draft(self, tokenizer: Tokenizer) -> str:
        """The text behind `known`, up to the end of the block."""
        parts: list[str] = []
        run: list[int] = []
        for token in [*self.text[self._next : self._end], self.form.mask]:
            if token != self.form.mask:
                run.append(token)
                continue
            parts += [tokenizer.decode(run)] if run else []
            parts.append(MASKED)
            run = []
        return "".join(parts[:-1])

    def steps(self) -> Iterator[None]:
        """Fills places, step by step."""
        total = self.chosen.steps or max(self.count, 1)
        length = self.block_length or max(self.count, 1)
        for first in range(0, self.count, length):
            start, size = self.prompt + first, min(length, self.count - first)
            self._end = start + size
            share = total if size == self.count else max(1, total * size // self.count)
            masked = [*range(start, self._end)]
            for step in range(share):
                chance, fills = self._share(step, share, size, len(masked))
                if fills:
                    self._fill(masked, fills, chance)
                    masked = [place for place in masked if self.text[place] == self.form.mask]
                    yield
                if not masked:
                    break

    def _share(self, step: int, steps: int, size: int, masked: int) -> tuple[float, int]:
        """The chance of each masked place to be filled in a step, and the number of places."""
        if self.times is None:
            return 1.0, size // steps + (step < size % steps)
        if step == steps - 1:
            return 1.0, masked
        now, then = (1 - (1 - self.times) * at / steps for at in (step, step + 1))
        chance = 1 - then / now
        return chance, masked if self.remasking == "origin" else int(masked * chance)

    def _fill(self, masked: list[int], fills: int, chance: float) -> None:
        """Fills the surest of the masked places."""
        self.passes += 1
        with no_grad():
            tokens, sureness = self._predicted(self._logits(masked))
        if any(map(isnan, sureness)):
            raise not_a_number()
        if self.remasking == "origin":
            draws = rand(len(masked), generator=self._random).read_values()
            for place, token, draw in zip(masked, tokens, draws, strict=True):
                if draw < chance:
                    self.text[place] = token
            return
        if self.chosen.remasking_temperature:  # the largest of noisy scores are a draw without replacement
            draws = rand(len(masked), generator=self._random).read_values()
            scale = self.chosen.remasking_temperature
            sureness = [
                sure / scale - log(-log(min(max(draw, 1e-30), 1 - 1e-7)))
                for sure, draw in zip(sureness, draws, strict=True)
            ]
        for i in sorted(range(len(masked)), key=lambda i: -sureness[i])[:fills]:
            self.text[masked[i]] = tokens[i]

    def _logits(self, masked: list[int]) -> Tensor:
        """The logits (M, V) of masked places, without the mask itself."""
        places = ops.tensor(masked, dtype="int64", device=self._device)
        texts = [self.text]
        if self.chosen.guidance_scale != 1:
            texts.append([*[self.form.mask] * self.prompt, *self.text[self.prompt :]])
        found = self.model.predictions(ops.tensor(texts, dtype="int32", device=self._device), places).to("float32")
        logits = found.select(0, 0)  # (M, V)
        if len(texts) > 1:
            without = found.select(0, 1)
            logits = without + (logits - without) * self.chosen.guidance_scale
        ids = ops.arange(logits.shape[-1], device=self._device)
        return ops.where(ids == self.form.mask, -inf, logits)

    def _predicted(self, logits: Tensor) -> tuple[list[int], list[float]]:
        """The token of each place of logits (M, V), and how sure it is: the larger the surer."""
        options, drawn = self.options, not self.options.greedy
        filtered = logits
        if drawn:
            filtered = logits * (1 / options.temperature)
        if options.top_p < 1:
            filtered = _likeliest(filtered, options.top_p)
        if options.top_k:
            least = filtered.topk(min(options.top_k, filtered.shape[-1]), -1)[0].narrow(-1, -1, 1)  # (M, 1)
            filtered = ops.where(filtered < least, -inf, filtered)
        scores = filtered
        if drawn:  # the largest of logits with Gumbel's noise is a draw
            noise = rand(*logits.shape, generator=self._random).to(self._device)
            scores = filtered - (-(noise.clamp(1e-30, 1 - 1e-7).log())).log()
        chosen = scores.argmax(-1)  # (M,)
        if self.remasking == "random":
            sureness = rand(chosen.shape[0], generator=self._random)
        elif self.remasking == "entropy":
            shares = filtered.softmax(-1)
            sureness = (shares * (shares + 1e-10).log()).sum(-1)
        elif self.remasking == "topk_margin":
            best = filtered.softmax(-1).topk(2, -1)[0]  # (M, 2)
            sureness = best.select(-1, 0) - best.select(-1, 1)
        else:
            shares = (logits if self.remasking == "low_confidence" else filtered).softmax(-1)
            sureness = shares.gather(1, chosen.unsqueeze(-1)).squeeze(-1)
        return [int(token) for token in chosen.tolist()], sureness.tolist()


def _likeliest(logits: Tensor, share: float) -> Tensor:
    """logits (M, V), of which only the likeliest stay that together have the probability `share`."""
    ordered, order = logits.sort(-1, True)
    shares = ordered.softmax(-1)
    kept = ops.where(shares.cumsum(-1) - shares > share, -inf, ordered)  # the first one that exceeds it stays
    return ops.scatter(kept, -1, order, kept)
