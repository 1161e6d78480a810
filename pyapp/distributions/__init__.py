"""Probability distributions, by torch.distributions' names. Each has sample, rsample if it is differentiable, log_prob,
entropy, mean and variance; kl_divergence takes two of the same kind. Parameters and values are checked, as in torch,
unless validate_args is False.
"""

import sys
from types import ModuleType

from . import constraints as constraints
from . import kl as kl
from . import transforms as transforms
from . import utils as utils
from .continuous import Cauchy, Exponential, Gumbel, Laplace, Normal, Uniform
from .continuous_bernoulli import ContinuousBernoulli
from .counts import Binomial, Geometric, Multinomial, NegativeBinomial, Poisson
from .discrete import Bernoulli, Categorical, OneHotCategorical
from .distribution import Distribution, Independent
from .divergence import kl_divergence, register_kl
from .exp_family import ExponentialFamily
from .gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
from .low_rank import LowRankMultivariateNormal
from .mixture import MixtureSameFamily
from .multivariate_normal import MultivariateNormal
from .of_matrices import LKJCholesky, Wishart
from .of_positive_numbers import (
    FisherSnedecor,
    GeneralizedPareto,
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    Pareto,
    Weibull,
)
from .relaxed import (
    ExpRelaxedCategorical,  # noqa: F401  # _MODULES names it
    LogitRelaxedBernoulli,  # noqa: F401  # the same
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from .transformed import LogisticNormal, LogNormal, TransformedDistribution
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    biject_to,
    identity_transform,
    transform_to,
)
from .von_mises import VonMises

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "ContinuousBernoulli", "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet",
    "Distribution", "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto",
    "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy",
    "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform", "PowerTransform",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "identity_transform",
    "kl_divergence", "register_kl", "transform_to",
]  # fmt: skip

# torch has a module for each kind. Those that are no files here hold the classes that are meant.
_MODULES = {
    "bernoulli": "Bernoulli", "beta": "Beta", "binomial": "Binomial", "categorical": "Categorical", "cauchy": "Cauchy",
    "chi2": "Chi2", "dirichlet": "Dirichlet", "exponential": "Exponential", "fishersnedecor": "FisherSnedecor",
    "generalized_pareto": "GeneralizedPareto", "geometric": "Geometric", "gumbel": "Gumbel",
    "half_cauchy": "HalfCauchy", "half_normal": "HalfNormal", "independent": "Independent",
    "inverse_gamma": "InverseGamma", "kumaraswamy": "Kumaraswamy", "laplace": "Laplace", "lkj_cholesky": "LKJCholesky",
    "log_normal": "LogNormal", "logistic_normal": "LogisticNormal",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal", "mixture_same_family": "MixtureSameFamily",
    "multinomial": "Multinomial", "negative_binomial": "NegativeBinomial", "normal": "Normal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough", "pareto": "Pareto",
    "poisson": "Poisson", "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
    "studentT": "StudentT", "transformed_distribution": "TransformedDistribution", "uniform": "Uniform",
    "weibull": "Weibull", "wishart": "Wishart",
}  # fmt: skip
for _module, _names in _MODULES.items():
    _made = sys.modules[f"{__name__}.{_module}"] = globals()[_module] = ModuleType(f"{__name__}.{_module}")
    _made.__dict__.update({name: globals()[name] for name in _names.split()}, __all__=_names.split())
