"""Losses of preferences: answers that people chose and answers that they rejected."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import log

from pyapp.engine import Tensor, ops
from pyapp.errors import OptionError
from pyapp.nn import functional as F

from .token_rows import IGNORED


def completion_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    """log p of each row's targets that are not IGNORED: logits (B, T, V), targets (B, T) → (B,) in nats."""
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten().long(), ignore_index=IGNORED, reduction="none")
    return -losses.reshape(targets.shape).sum(1)


def _robust(chosen: Tensor, rejected: Tensor, beta: float, smoothing: float) -> Tensor:
    margin = beta * (chosen - rejected)  # (B,)
    return (smoothing * F.logsigmoid(-margin) - (1 - smoothing) * F.logsigmoid(margin)) / (1 - 2 * smoothing)


# name → (chosen, rejected, beta, smoothing) → losses (B,); chosen and rejected: log p less that of the reference
DPO_LOSSES: dict[str, Callable[[Tensor, Tensor, float, float], Tensor]] = {
    "sigmoid": lambda chosen, rejected, beta, _: -F.logsigmoid(beta * (chosen - rejected)),
    "hinge": lambda chosen, rejected, beta, _: F.relu(1 - beta * (chosen - rejected)),
    "ipo": lambda chosen, rejected, beta, _: (chosen - rejected - 1 / (2 * beta)).square(),
    "robust": _robust,
    "apo_zero": lambda chosen, rejected, beta, _: 1 - (beta * chosen).sigmoid() + (beta * rejected).sigmoid(),
    "apo_down": lambda chosen, rejected, beta, _: (
        (beta * chosen).sigmoid() + 1 - (beta * (chosen - rejected)).sigmoid()
    ),
}
PER_TOKEN = ("ipo",)  # losses of the mean log p of a token


def dpo_loss(
    chosen: Tensor,
    rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float = 0.1,
    kind: str = "sigmoid",
    label_smoothing: float = 0.0,
    lengths: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Direct preference optimisation (Rafailov et al. 2023, arXiv 2305.18290): the mean loss of B pairs, a scalar.

    chosen, rejected (B,): log p of the answers (completion_log_probs) by the model that is trained; reference_chosen,
    reference_rejected (B,): by the model as it was. beta: how much it costs to leave the reference. kind: "sigmoid",
    "hinge" (Zhao et al. 2023, arXiv 2305.10425), "ipo" (Azar et al. 2023, arXiv 2310.12036; it needs `lengths`, the
    numbers of tokens of the answers (B,)), "robust" (Chowdhury et al. 2024, arXiv 2403.00409: `label_smoothing` is the
    share of pairs that are the wrong way round), "apo_zero" and "apo_down" (D'Oosterlinck et al. 2024,
    arXiv 2408.06266). The values are trl's. OptionError for unknown kinds and numbers out of their range.
    """
    check_preference(beta, kind, label_smoothing, kinds=DPO_LOSSES)
    better, worse = chosen - reference_chosen, rejected - reference_rejected  # (B,) each
    if kind in PER_TOKEN:
        if lengths is None:
            raise OptionError(f"the loss {kind!r} needs the numbers of tokens of the answers", where="lengths")
        better, worse = better / lengths[0].clamp(min=1), worse / lengths[1].clamp(min=1)
    return DPO_LOSSES[kind](better, worse, beta, label_smoothing).mean()


def _sigmoid(chosen: Tensor, rejected: Tensor, beta: float, gamma: float, smoothing: float) -> Tensor:
    margin = beta * (chosen - rejected) - gamma  # (B,)
    return -(1 - smoothing) * F.logsigmoid(margin) - smoothing * F.logsigmoid(-margin)


def _log_odds(log_probs: Tensor) -> Tensor:
    """log(p / (1 - p)) of log p (B,)."""
    near = log_probs > -log(2)  # where 1 - exp(x) would lose digits
    rest = ops.where(near, (-log_probs.expm1()).log(), (-log_probs.exp()).log1p())
    return log_probs - rest


# name → (chosen, rejected, beta, gamma, smoothing) → losses (B,); chosen and rejected: log p
REFERENCE_FREE_LOSSES: dict[str, Callable[[Tensor, Tensor, float, float, float], Tensor]] = {
    "cpo": lambda chosen, rejected, beta, _, smoothing: _sigmoid(chosen, rejected, beta, 0.0, smoothing),
    "simpo": _sigmoid,
    "orpo": lambda chosen, rejected, beta, *_: -beta * F.logsigmoid(_log_odds(chosen) - _log_odds(rejected)),
}
OF_MEANS = ("simpo", "orpo")  # those that compare the mean log p of a token


def reference_free_loss(
    chosen: Tensor,
    rejected: Tensor,
    kind: str = "orpo",
    beta: float = 0.1,
    gamma: float = 0.5,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Losses of preferences that need no reference: the mean of B pairs, a scalar.

    chosen, rejected (B,): log p of the answers (completion_log_probs), for "simpo" and "orpo" divided by their numbers
    of tokens. kind: "orpo" (Hong et al. 2024, arXiv 2403.07691), "cpo" (Xu et al. 2024, arXiv 2401.08417) or "simpo"
    (Meng et al. 2024, arXiv 2405.14734). ORPO and CPO also teach the preferred answers: add the mean negative log p of
    their tokens to the loss; trl counts the prompts' tokens, too, for ORPO. gamma: the margin of SimPO, in units of
    beta times log p. label_smoothing, of CPO and SimPO: the share of pairs that are the wrong way round. The values are
    trl's. OptionError for unknown kinds and numbers out of their range.
    """
    check_preference(beta, kind, label_smoothing, gamma, REFERENCE_FREE_LOSSES)
    return REFERENCE_FREE_LOSSES[kind](chosen, rejected, beta, gamma, label_smoothing).mean()


def kto_loss(
    log_probs: Tensor,
    reference: Tensor,
    desirable: Tensor,
    divergence: float = 0.0,
    beta: float = 0.1,
    desirable_weight: float = 1.0,
    undesirable_weight: float = 1.0,
) -> Tensor:
    """Kahneman-Tversky optimisation (Ethayarajh et al. 2024, arXiv 2402.01306, equation 7) of single answers: the mean
    loss of B of them, a scalar.

    log_probs, reference (B,): log p of the answers (completion_log_probs) by the model that is trained and by the model
    as it was. desirable (B,) bool: which of them are good. divergence: an estimate of KL(model ‖ reference) in nats, at
    least 0; trl takes the mean of log_probs less reference of the batch's prompts with the answers to others. Without
    one, the loss is trl's "apo_zero_unpaired" (D'Oosterlinck et al. 2024, arXiv 2408.06266). beta: how much it costs to
    leave the reference. The weights are factors of the losses of both kinds of answers. The values are trl's.
    OptionError for numbers out of their range.
    """
    check_preference(beta, "kto", 0.0, kinds=UNPAIRED_LOSSES)
    good = desirable.to(log_probs.dtype)  # (B,): 1 or 0
    losses = 1 - (beta * (2 * good - 1) * (log_probs - reference - divergence)).sigmoid()  # (B,)
    return ((undesirable_weight + (desirable_weight - undesirable_weight) * good) * losses).mean()


UNPAIRED_LOSSES = ("kto", "apo_zero_unpaired")  # of single answers
PREFERENCE_LOSSES = (*DPO_LOSSES, *REFERENCE_FREE_LOSSES, *UNPAIRED_LOSSES)


def check_preference(
    beta: float, kind: str, label_smoothing: float, gamma: float = 0.0, kinds: Container[str] = PREFERENCE_LOSSES
) -> None:
    """OptionError for a loss that is none of `kinds`, and for settings of one that are out of their range."""
    if kind not in kinds:
        known = [name for name in PREFERENCE_LOSSES if name in kinds]
        raise OptionError(f"is one of {', '.join(known)}, not {kind!r:.50}", where="kind")
    if not 0 < beta < float("inf"):
        raise OptionError(f"is a number above 0, not {beta!r:.50}", where="beta")
    if not 0 <= label_smoothing < 0.5:
        raise OptionError(f"is a number from 0 to below 0.5, not {label_smoothing!r:.50}", where="label_smoothing")
    if not 0 <= gamma < float("inf"):
        raise OptionError(f"is a number from 0 on, not {gamma!r:.50}", where="gamma")


def reward_loss(chosen: Tensor, rejected: Tensor, margin: Tensor | None = None, center: float = 0.0) -> Tensor:
    """The loss of a reward model (Bradley and Terry 1952; Ouyang et al. 2022, arXiv 2203.02155), a scalar.

    chosen, rejected (B,): scores of the answers. margin (B,): by how much the first is to be above the second. center:
    weight of the term that keeps scores near 0 (Eisenstein et al. 2023, arXiv 2312.09244). The values are trl's.
    """
    difference = chosen - rejected if margin is None else chosen - rejected - margin  # (B,)
    loss = -F.logsigmoid(difference).mean()
    return loss + center * (chosen + rejected).square().mean() if center else loss


__all__ = [
    "DPO_LOSSES",
    "PREFERENCE_LOSSES",
    "REFERENCE_FREE_LOSSES",
    "UNPAIRED_LOSSES",
    "check_preference",
    "completion_log_probs",
    "dpo_loss",
    "kto_loss",
    "reference_free_loss",
    "reward_loss",
]
