"""Probability distributions, by torch.distributions' names. Of each: sample, rsample where a gradient passes, log_prob,
entropy, mean, variance; kl_divergence of two of a kind. Arguments are not checked (`validate_args` changes nothing).
"""

from .continuous import Cauchy, Exponential, Gumbel, Laplace, LogNormal, Normal, Uniform
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical
from .distribution import Distribution, Independent
from .divergence import kl_divergence
from .multivariate_normal import MultivariateNormal

__all__ = [
    "Bernoulli", "Categorical", "Cauchy", "Distribution", "Exponential", "Geometric", "Gumbel", "Independent",
    "Laplace", "LogNormal", "MultivariateNormal", "Normal", "OneHotCategorical", "Uniform", "kl_divergence",
]  # fmt: skip
