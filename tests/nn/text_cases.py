"""Modules whose printed texts are compared with torch's; `nn` is torch.nn or pyapp.nn, `t` the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[[Any, Any], Any]

TEXTS: dict[str, Make] = {
    "AdaptiveAvgPool": lambda t, nn: [nn.AdaptiveAvgPool2d((1, None)), nn.AdaptiveAvgPool1d(3)],
    "AdaptiveMaxPool": lambda t, nn: [nn.AdaptiveMaxPool2d(2), nn.AdaptiveMaxPool2d(2, return_indices=True)],
    "AvgPool": lambda t, nn: [nn.AvgPool1d(2), nn.AvgPool2d(3, 2, 1), nn.AvgPool3d((1, 2, 2), ceil_mode=True)],
    "MaxPool": lambda t, nn: [nn.MaxPool1d(2), nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.MaxPool3d(2, dilation=2)],
    "MaxUnpool": lambda t, nn: [nn.MaxUnpool2d(2), nn.MaxUnpool1d(3, stride=2, padding=1)],
    "LPPool": lambda t, nn: [nn.LPPool1d(2, 3), nn.LPPool2d(1.2, (3, 2), stride=2)],
    "FractionalMaxPool": lambda t, nn: nn.FractionalMaxPool2d(3, output_size=(13, 12)),
    "dropout": lambda t, nn: [nn.Dropout(), nn.Dropout2d(0.2, inplace=True), nn.AlphaDropout(0.3), nn.Dropout1d()],
    "activations": lambda t, nn: [
        nn.CELU(), nn.ELU(0.5, inplace=True), nn.GELU(), nn.GELU("tanh"), nn.GLU(), nn.Hardshrink(), nn.Hardsigmoid(),
        nn.Hardswish(), nn.Hardtanh(), nn.Hardtanh(-2, 2), nn.LeakyReLU(), nn.LeakyReLU(0.2, True), nn.LogSigmoid(),
        nn.Mish(), nn.PReLU(), nn.PReLU(3, 0.1), nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.RReLU(), nn.SELU(),
        nn.SiLU(), nn.SiLU(inplace=True), nn.Sigmoid(), nn.Softmin(), nn.Softmax(dim=-1), nn.Softmax2d(),
        nn.LogSoftmax(1), nn.Softplus(), nn.Softplus(2, 10), nn.Softshrink(), nn.Softsign(), nn.Tanh(),
        nn.Tanhshrink(), nn.Threshold(0.1, 20), nn.Threshold(0.1, 20, True),
    ],
    "losses": lambda t, nn: [
        nn.BCELoss(), nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(pos_weight=t.ones(1)), nn.CTCLoss(),
        nn.CosineEmbeddingLoss(), nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1, weight=t.ones(2)),
        nn.GaussianNLLLoss(), nn.HingeEmbeddingLoss(), nn.HuberLoss(), nn.KLDivLoss(), nn.L1Loss(), nn.MSELoss(),
        nn.MSELoss(reduction="sum"), nn.MarginRankingLoss(), nn.MultiLabelMarginLoss(), nn.MultiLabelSoftMarginLoss(),
        nn.MultiMarginLoss(), nn.NLLLoss(), nn.PoissonNLLLoss(), nn.SmoothL1Loss(), nn.SoftMarginLoss(),
        nn.TripletMarginLoss(), nn.AdaptiveLogSoftmaxWithLoss(4, 9, [3, 6]),
    ],
    "norms": lambda t, nn: [
        nn.BatchNorm1d(3), nn.BatchNorm2d(3, eps=1e-3, momentum=None, affine=False, track_running_stats=False),
        nn.BatchNorm3d(2, bias=False), nn.InstanceNorm1d(3), nn.InstanceNorm2d(3, affine=True), nn.GroupNorm(2, 4),
        nn.GroupNorm(2, 4, affine=False), nn.LayerNorm(5), nn.LayerNorm((2, 3), elementwise_affine=False),
        nn.LayerNorm(5, bias=False), nn.RMSNorm(4), nn.RMSNorm(4, eps=1e-6), nn.LocalResponseNorm(2),
        nn.LazyBatchNorm1d(), nn.SyncBatchNorm(3),
    ],
    "convolutions": lambda t, nn: [
        nn.Conv1d(2, 3, 5), nn.Conv2d(2, 4, (3, 1), stride=2, padding=1, dilation=2, groups=2, bias=False),
        nn.Conv2d(1, 1, 3, padding="same", padding_mode="circular"), nn.Conv3d(1, 2, 3),
        nn.ConvTranspose1d(2, 3, 4, 2, 1), nn.ConvTranspose2d(2, 4, 3, 2, 1, output_padding=1, groups=2, dilation=2),
        nn.LazyConv2d(4, 3), nn.LazyLinear(3), nn.LazyConvTranspose1d(3, 2),
    ],
    "linear": lambda t, nn: [nn.Linear(2, 3), nn.Linear(2, 3, bias=False), nn.Bilinear(1, 2, 3), nn.Identity()],
    "embeddings": lambda t, nn: [
        nn.Embedding(4, 3), nn.Embedding(4, 3, padding_idx=0, max_norm=1.0, scale_grad_by_freq=True),
        nn.EmbeddingBag(4, 3), nn.EmbeddingBag(4, 3, mode="sum", padding_idx=1),
    ],
    "recurrent": lambda t, nn: [
        nn.RNN(2, 3), nn.RNN(2, 3, nonlinearity="relu"), nn.LSTM(2, 4, 2, batch_first=True, dropout=0.1),
        nn.LSTM(2, 4, proj_size=3), nn.GRU(2, 3, bidirectional=True, bias=False), nn.LSTMCell(2, 3),
        nn.GRUCell(2, 3, bias=False), nn.RNNCell(2, 3), nn.RNNCell(2, 3, nonlinearity="relu"),
    ],
    "attention": lambda t, nn: [
        nn.MultiheadAttention(4, 2, batch_first=True), nn.TransformerEncoderLayer(4, 2, 8, batch_first=True),
        nn.TransformerDecoderLayer(4, 2, 8, activation="gelu"), nn.Transformer(4, 2, 2, 1, 8),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 2, norm=nn.LayerNorm(4)),
    ],
    "pads": lambda t, nn: [
        nn.ZeroPad2d(1), nn.ZeroPad1d((1, 2)), nn.ConstantPad2d(1, 3.5), nn.ReflectionPad2d((1, 1, 0, 0)),
        nn.ReplicationPad1d(2), nn.CircularPad2d(1),
    ],
    "shapes": lambda t, nn: [
        nn.Flatten(), nn.Flatten(0, 1), nn.Unflatten(1, (2, 3)), nn.Fold((4, 5), 2), nn.Unfold(3, padding=1),
        nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(2), nn.Upsample(scale_factor=2),
        nn.Upsample(size=(3, 4), mode="bilinear", align_corners=True), nn.UpsamplingBilinear2d(scale_factor=2),
        nn.UpsamplingNearest2d(size=4), nn.CosineSimilarity(), nn.PairwiseDistance(),
    ],
    "containers": lambda t, nn: [
        nn.Sequential(), nn.Sequential(nn.Linear(1, 1), nn.ReLU()),
        nn.ModuleList([nn.Linear(1, 1)] * 2 + [nn.ReLU()]),
        nn.ModuleDict({"a": nn.Linear(1, 1)}), nn.ParameterList([t.zeros(2), t.ones(2, 3)]),
        nn.ParameterDict({"a": t.zeros(2)}), nn.ModuleList(), nn.ModuleDict(),
        nn.ParameterList([nn.Parameter(t.ones(1))]),
        nn.Sequential(nn.Sequential(nn.Tanh()), nn.Sequential(nn.Tanh())),
    ],
    "members that are no tensors": lambda t, nn: [
        nn.ParameterList([t.ones(2), 3, "x", None]),
        nn.ParameterDict({"b": t.zeros(2, 3), "n": 3, "a": t.ones(1), "none": None, "layer": nn.Linear(1, 1)}),
    ],
    "parametrized": lambda t, nn: [
        nn.utils.spectral_norm(nn.Linear(2, 2)),
    ],
    "optimizers": lambda t, nn: [
        kind([nn.Parameter(t.zeros(2))], lr=0.1)
        for kind in (
            t.optim.SGD, t.optim.Adam, t.optim.AdamW, t.optim.RMSprop, t.optim.Adagrad, t.optim.Adadelta,
            t.optim.Adamax, t.optim.NAdam, t.optim.RAdam, t.optim.Rprop, t.optim.ASGD, t.optim.LBFGS,
        )
    ],
}  # fmt: skip


def text_of(t: Any, name: str) -> list[str]:
    """The texts of a case; both packages by the same name, and without torch's class for its own quantisation."""
    made = TEXTS[name](t, t.nn)
    texts = [str(one) for one in (made if isinstance(made, list) else [made])]
    return [text.replace("torch.", "pyapp.").replace("NonDynamicallyQuantizableLinear", "Linear") for text in texts]
