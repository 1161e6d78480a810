"""Probability distributions, by torch.distributions' names. Each has sample, rsample if it is differentiable, log_prob,
entropy, mean and variance; kl_divergence takes two of the same kind. Parameters and values are checked, as in torch,
unless validate_args is False.
"""

from . import constraints as constraints
from . import transforms as transforms
from .continuous import Cauchy, Exponential, Gumbel, Laplace, LogNormal, Normal, Uniform
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, Independent
from .divergence import kl_divergence
from .gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from .mixture import MixtureSameFamily
from .multivariate_normal import MultivariateNormal
from .transformed import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    HalfNormal,
    SigmoidTransform,
    TanhTransform,
    Transform,
    TransformedDistribution,
)

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ComposeTransform",
    "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma", "Geometric", "Gumbel", "HalfNormal",
    "Independent", "Laplace", "LogNormal", "MixtureSameFamily", "MultivariateNormal", "Normal", "OneHotCategorical",
    "Poisson", "SigmoidTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution", "Uniform",
    "kl_divergence",
]  # fmt: skip
