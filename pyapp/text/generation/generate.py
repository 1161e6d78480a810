"""The generate loop: reads a prompt in passes, then generates one token after another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Notice, Progress
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler
from pyapp.text.generation.session import LanguageModel, LanguageModelConfig, Session, context_hint
from pyapp.text.generation.speculation import Drafter, PromptLookup, Speculation
from pyapp.text.generation.writer import Clock, Writer
from pyapp.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyapp.text.structured_output.structured import TextForm

__all__ = [
    "Clock", "LanguageModel", "LanguageModelConfig", "Session", "Writer", "check_tokenizer", "fitting", "form_of",
    "generate", "generate_from", "new_tokens", "prompt_ids",
]  # fmt: skip

GUESSES = 8  # of a draft model at a time, unless `lookup` says otherwise


def check_tokenizer(tokenizer: Tokenizer, config: LanguageModelConfig) -> Notice | None:
    """ModelError if the tokenizer has tokens that the model does not know: `tokens_read`, if its configuration has
    that, else vocab_size. A Notice if the model has more tokens than a padding of the vocabulary explains: they have no
    text, and the tokenizer may be another model's.
    """
    known, vocab_size = tokenizer.vocab_size, config.vocab_size
    if known > getattr(config, "tokens_read", vocab_size):
        raise ModelError(
            f"the tokenizer has {known:,} tokens, the model {vocab_size:,}: they do not belong together",
            where="tokenizer",
            hint="Give the tokenizer that was made for this model",
        )
    if vocab_size <= known + max(128, known // 8):
        return None
    return Notice(
        f"the tokenizer has {known:,} tokens, the model {vocab_size:,}: the others have no text",
        where="tokenizer",
        hint="If the model writes nonsense, give the tokenizer that was made for it",
    )


def prompt_ids(tokenizer: Tokenizer, prompt: str, capacity: int | None = None, hint: str = "") -> list[int]:
    """The prompt's tokens; for an empty prompt only the beginning-of-text token. OptionError, with `hint`, for one
    that is too long for `capacity`.
    """
    ids = tokenizer.encode(prompt, eos=False)
    if not ids:
        ids = [tokenizer.bos_id if tokenizer.bos_id is not None else min(tokenizer.eos_ids, default=0)]
    if capacity is not None and len(ids) > capacity:
        share = int(len(prompt) * capacity / len(ids))
        raise OptionError(
            f"{len(ids):,} tokens are too long: there is room for {capacity:,}",
            where="prompt",
            hint=f"Shorten it from {len(prompt):,} to about {share:,} characters. {hint}".rstrip(),
        )
    return ids


def fitting(ids: list[int], capacity: int, keep: int) -> list[int]:
    """A text for a rolling context: if `ids` are more than `capacity`, the first `keep` and the last ones, which fill
    half of what is left, so that rolling is rare.
    """
    if len(ids) <= capacity:
        return ids
    if keep >= capacity:
        raise OptionError(f"must be less than the context of {capacity} tokens, not {keep}", where="keep")
    return [*ids[:keep], *ids[-((capacity - keep + 1) // 2) :]]


def new_tokens(options: SamplingOptions, capacity: int, ids: Sequence[int]) -> int:
    """The most tokens that may follow a prompt; the last one needs no place in the context."""
    room = capacity + 1 - len(ids)
    return room if options.max_new_tokens is None else min(options.max_new_tokens, room)


def generate(
    session: Session,
    tokenizer: Tokenizer,
    prompt: str = "",
    options: SamplingOptions | None = None,
    cancel: Cancel | None = None,
    drafter: Drafter | None = None,
) -> Iterator[Event]:
    """Continues `prompt`: Progress over the prompt, a Token each, Metrics, and Done with the reason.

    Reasons: "stop" (the model ended the text, or its form is complete), "length" (max_new_tokens), "context" (the cache
    is full), "stop_string", "cancelled". The session is reset first. `drafter` guesses tokens
    (pyapp/text/generation/speculation.py). Raises OptionError for a prompt that is too long, ModelError for a tokenizer
    of another model and for weights that give NaN.
    """
    options = options or SamplingOptions()
    check_tokenizer(tokenizer, session.model.config)
    ids = prompt_ids(tokenizer, prompt, None if options.rolling else session.capacity, context_hint(session))
    session.reset()
    return generate_from(session, tokenizer, ids, options, cancel, drafter, continuing=bool(prompt))


def generate_from(
    session: Session,
    tokenizer: Tokenizer,
    ids: Sequence[int],
    options: SamplingOptions,
    cancel: Cancel | None = None,
    drafter: Drafter | None = None,
    continuing: bool = True,
) -> Iterator[Event]:
    """As `generate`, for the tokens of a prompt that fits the context. What the session has read of it is not read
    again.

    `continuing`: the new text follows other text, so a space at its beginning is kept.
    """
    cancel = cancel or Cancel()
    if hasattr(session.model, "denoising"):
        from pyapp.text.generation.denoising import denoise  # the page's first token does without

        yield from denoise(session, tokenizer, ids, options, cancel, drafter, continuing)
        return
    if options.denoising is not None:
        raise OptionError("this model writes token by token", where="denoising", hint="Leave it out")
    clock = Clock()
    ids = fitting(list(ids), session.capacity, options.keep)
    most = options.max_new_tokens if options.rolling else new_tokens(options, session.capacity, ids)
    form = form_of(options, tokenizer, session, most)
    stops = tokenizer.stop_ids.union(options.stop_tokens)
    sampler = Sampler(options, session.vocab_size, session.capacity + 1, session.device, form, stops)
    sampler.accept(session.plain(ids), prompt=True)
    writer = Writer(tokenizer, options, continuing or form is not None)
    steps = _steps(session, options, drafter)
    step = steps.step
    reason = "cancelled"
    reused = session.reuse(ids)
    done = reused
    for part in session.passes(ids[reused:]):
        if cancel.is_set():
            break
        logits = session.feed(part)
        done += len(part)
        yield Progress("prompt", done, len(ids), "tokens")
    else:
        clock.prompt_done()
        reason = "length" if most == 0 else reason
        while most != 0 and not cancel.is_set():
            token = sampler.sample(logits)
            clock.token_done()
            if token in stops:
                reason = "stop"
                break
            sampler.accept((token,))
            yield writer.write(token) if options.logprobs is None else writer.write_scored(token, logits)
            if ending := writer.ending(form):
                reason = ending
                break
            if steps.position >= session.capacity and not options.rolling:
                reason = "context"
                break
            logits = step(token) if steps.position < session.capacity else _roll(session, steps, options, token)
    if isinstance(steps, Speculation):
        steps.settle()
    if rest := writer.finish():
        yield rest
    yield from clock.metrics(len(ids) - reused)
    results: dict[str, Any] = {"prompt_tokens": len(ids), "new_tokens": writer.count, "seed": sampler.seed}
    results |= {"stop_string": writer.stop_string} if writer.stop_string else {}
    results |= {"reused_tokens": reused} if reused else {}
    if isinstance(steps, Speculation):
        results |= {"guessed_tokens": steps.guessed, "accepted_tokens": steps.accepted, "passes": steps.passes}
    yield Done(reason, results)


def form_of(options: SamplingOptions, tokenizer: Tokenizer, session: Session, left: int | None) -> TextForm | None:
    """The form that the options ask for, of a text of at most `left` tokens; None if any text will do."""
    if not options.has_form:
        return None
    from pyapp.text.structured_output import structured  # the page's first token does without

    return structured.form_of(options, tokenizer, session.vocab_size, session.device, left)


def _steps(session: Session, options: SamplingOptions, drafter: Drafter | None) -> Session | Speculation:
    """What reads the new tokens: the session, or its steps with guesses."""
    if drafter is not None:
        return Speculation(session, drafter, options.lookup or GUESSES)
    return Speculation(session, PromptLookup(), options.lookup) if options.lookup else session


def _roll(session: Session, steps: Session | Speculation, options: SamplingOptions, token: int) -> Tensor:
    """Reads a token for which there is no room: drops the oldest tokens and reads the others again, because their
    positions change.
    """
    if isinstance(steps, Speculation):
        steps.settle()
    return session.continue_from(fitting([*session.tokens, token], session.capacity, options.keep))
