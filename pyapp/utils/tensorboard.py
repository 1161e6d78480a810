"""torch.utils.tensorboard's name: a log that TensorBoard shows: numbers, histograms, pictures, texts, curves of
precision and recall, hyperparameters, graphs and embeddings.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import Any

from ..engine import Tensor
from ..engine.lazy import np
from ..engine.user_errors import describe
from ..formats.png import encode_png
from ..formats.sink import open_sink
from ..formats.tensorboard_plugins import (
    MOST_THRESHOLDS,
    graph_def,
    hparams_values,
    pr_curve,
    pr_curve_value,
    text_value,
)
from ..formats.tfevents import EventWriter, picture_bytes
from .module_graph import module_graph

__all__ = ["SummaryWriter"]


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


class SummaryWriter:
    """Writes an event file into `log_dir` (without one into runs/ and the time, then `comment`), whose name ends in
    `filename_suffix`. What is added is in the file at once. `global_step` is the place on TensorBoard's axis; None is
    0. `walltime` are seconds since 1970, by default now. `purge_step`: a run that goes on from this step; what files of
    the folder have from there on is no longer shown.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None,
        max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        self.log_dir = str(log_dir or Path("runs") / f"{time.strftime('%b%d_%H-%M-%S')}{comment}")
        self._suffix, self._purge_step = filename_suffix, purge_step
        self._files: dict[str, EventWriter] = {}
        self._embeddings: list[str] = []  # what projector_config.pbtxt says of each
        self._writer()

    def _writer(self, folder: str = "") -> EventWriter:
        """The file of a folder inside the log's; it is made anew after `close`."""
        if folder not in self._files:
            self._files[folder] = EventWriter(Path(self.log_dir) / folder, self._suffix)
            if self._purge_step is not None:
                self._files[folder].purge(self._purge_step)
        return self._files[folder]

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
        new_style: bool = False, double_precision: bool = False,
    ) -> None:  # fmt: skip
        """A number, in float32: a tensor or an array of one element, too. The last two arguments are torch's; they have
        no effect.
        """
        value = _array(scalar_value)
        if value.size != 1:
            raise ValueError(f"add_scalar: {tag!r} has {value.size} numbers, not one")
        self._writer().write(global_step or 0, {tag: float(value.reshape(()))}, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Several numbers in one drawing: each in a folder of its own, <main_tag>_<tag>, as torch does."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{tag}"
            self._writer(folder).write(global_step or 0, {main_tag: float(_array(value).reshape(()))}, walltime)

    def add_histogram(
        self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
        walltime: float | None = None, max_bins: int | None = None,
    ) -> None:  # fmt: skip
        """The distribution of the numbers in a tensor of any shape, always in 30 parts of equal width: `bins` and
        `max_bins` have no effect."""
        self._writer().write_histogram(global_step or 0, tag, _array(values), walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:  # fmt: skip
        """A picture: floats from 0 to 1, or uint8. `dataformats` orders its dims: CHW, HWC or HW."""
        self.add_images(tag, _array(img_tensor)[None], global_step, walltime, f"N{dataformats}")

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:  # fmt: skip
        """Several pictures, of which the first three are written."""
        pictures, order = _array(img_tensor), dataformats.upper()
        if sorted(order) not in (sorted("NCHW"), sorted("NHW")) or pictures.ndim != len(order):
            raise ValueError(f"add_images: {dataformats!r:.20} does not order the dims of {pictures.shape}")
        if "C" not in order:
            pictures, order = pictures[..., None], order + "C"
        pictures = pictures.transpose([order.index(dim) for dim in "NHWC"])
        if pictures.shape[-1] not in (1, 3, 4):
            raise ValueError(f"add_images: a picture has 1, 3 or 4 channels, not {pictures.shape[-1]}")
        self._writer().write_pictures(global_step or 0, tag, pictures, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """A figure of matplotlib, or several of one size, as pictures. `close`: they are cleared afterwards."""
        figures = list(figure) if isinstance(figure, (list, tuple)) else [figure]
        pictures = []
        for one in figures:
            width, height = one.canvas.get_width_height()
            pixels = BytesIO()
            one.savefig(pixels, format="rgba", dpi=one.dpi)
            pictures.append(np.frombuffer(pixels.getvalue(), np.uint8).reshape(height, width, 4)[..., :3])
            if close:
                one.clear()
        self.add_images(tag, np.stack(pictures), global_step, walltime, "NHWC")

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A text, in Markdown."""
        self._writer().write_summary(global_step or 0, text_value(tag, text_string), walltime)

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """The curve of precision and recall of a binary classifier: labels (N,), 0 or 1 (or bools), predictions (N,)
        from 0 to 1, and weights (N,) of the examples. `num_thresholds` places of the curve, 127 at most.
        """
        truth, guess = _array(labels), _array(predictions)
        if truth.size != guess.size:
            raise ValueError(f"add_pr_curve: {truth.size} labels and {guess.size} predictions")
        if num_thresholds < 2:
            raise ValueError(f"add_pr_curve: takes 2 thresholds or more, not {num_thresholds}")
        curve = pr_curve(
            truth, guess, min(num_thresholds, MOST_THRESHOLDS), None if weights is None else _array(weights).ravel()
        )
        self._writer().write_summary(global_step or 0, pr_curve_value(tag, curve), walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: int | None = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """The same from numbers that are known, each (thresholds,)."""
        rows = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        curve = np.stack([_array(row) for row in (*rows, precision, recall)])
        self._writer().write_summary(global_step or 0, pr_curve_value(tag, curve), walltime)

    def add_hparams(
        self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None, run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:  # fmt: skip
        """Settings of a training and what came of them, for TensorBoard's table of runs, in a folder of their own,
        `run_name` or the time. Settings are texts, bools and numbers (tensors of one number, too); None is left out.
        `hparam_domain_discrete`: lists of all values that a setting can have.
        """
        if not isinstance(hparam_dict, Mapping) or not isinstance(metric_dict, Mapping):
            raise TypeError("add_hparams: hparam_dict and metric_dict are dicts")
        choices = hparam_domain_discrete or {}
        for name, values in choices.items():
            fitting = name in hparam_dict and isinstance(values, (list, tuple))
            if not fitting or not all(isinstance(value, type(hparam_dict[name])) for value in values):
                raise TypeError(f"add_hparams: hparam_domain_discrete[{name!r}] is a list of values like hparam_dict's")
        settings = {name: _setting(name, value) for name, value in hparam_dict.items() if value is not None}
        with SummaryWriter(Path(self.log_dir) / (run_name or str(time.time()))) as inside:
            for part in hparams_values(settings, list(metric_dict), choices):
                inside._writer().write_summary(global_step or 0, part)
            for name, value in metric_dict.items():
                inside.add_scalar(name, value, global_step)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The ops of a module and its parts, from one run in evaluation mode with `input_to_model`, a tensor or
        several. `verbose` prints the nodes. What is written in place is not shown; `use_strict_trace` has no effect.
        """
        if not hasattr(model, "named_modules"):
            raise TypeError(f"add_graph: takes a module, not {describe(model)}")
        nodes = module_graph(model, () if input_to_model is None else input_to_model)
        if verbose:
            print("\n".join(f"{node.name}: {node.op}{node.note} of {', '.join(node.inputs)}" for node in nodes))
        self._writer().write_graph(graph_def(nodes))

    def add_embedding(
        self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None, global_step: int | None = None,
        tag: str = "default", metadata_header: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Points mat (N, D) for TensorBoard's projector. `metadata`: N labels, or with `metadata_header`, the names of
        columns, N lists of them; `label_img` (N, 3, H, W): a picture for each, floats from 0 to 1 or uint8. Writes
        tables into a folder <step>/<tag> of the log.
        """
        points = _array(mat)
        if points.ndim != 2:
            raise ValueError(f"add_embedding: takes a matrix, not the shape {points.shape}")
        pictures = None if label_img is None else picture_bytes(_array(label_img))
        for what, found in (("labels", metadata), ("pictures", pictures)):
            if found is not None and len(found) != len(points):
                raise ValueError(f"add_embedding: {len(found)} {what} for {len(points)} points")
        if pictures is not None and (pictures.ndim != 4 or pictures.shape[1] != 3):
            raise ValueError(f"add_embedding: pictures are (N, 3, H, W), not {pictures.shape}")
        step = str(global_step or 0).zfill(5)
        inside = f"{step}/{tag.replace('%', '%25').replace('/', '%2f').replace(chr(92), '%5c')}"
        folder = Path(self.log_dir) / inside
        folder.mkdir(parents=True, exist_ok=True)
        described = [f"tensor_name: {_quoted(f'{tag}:{step}')}", f"tensor_path: {_quoted(f'{inside}/tensors.tsv')}"]
        _write_table(folder / "tensors.tsv", points.tolist())
        if metadata is not None:
            rows = [[row] for row in metadata] if not metadata_header else [metadata_header, *metadata]
            if any(len(row) != len(rows[0]) for row in rows):
                raise ValueError(
                    f"add_embedding: the labels do not have the columns {', '.join(metadata_header or ())}"
                )
            _write_table(folder / "metadata.tsv", rows)
            described.append(f"metadata_path: {_quoted(f'{inside}/metadata.tsv')}")
        if pictures is not None:
            with open_sink(folder / "sprite.png") as file:
                file.write(encode_png(_sprite(pictures)))
            height, width = pictures.shape[2:]
            described.append(
                f"sprite {{\n    image_path: {_quoted(f'{inside}/sprite.png')}\n    single_image_dim: {width}\n"
                f"    single_image_dim: {height}\n  }}"
            )
        self._embeddings.append("embeddings {\n" + "".join(f"  {line}\n" for line in described) + "}\n")
        with open_sink(Path(self.log_dir) / "projector_config.pbtxt") as file:
            file.write("".join(self._embeddings).encode())

    def flush(self) -> None:
        """Has no effect: everything is in the files."""

    def close(self) -> None:
        """Ends the files. What is added later goes into new ones."""
        for writer in self._files.values():
            writer.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _setting(name: str, value: Any) -> Any:
    """A setting as a text, a bool or a number."""
    if isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, Tensor) and value.numel() == 1:
        return float(value.detach().item())
    raise ValueError(f"add_hparams: {name!r} is a text, a bool or a number, not {describe(value)}")


def _write_table(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with open_sink(path) as file:
        file.writelines(("\t".join(map(str, row)) + "\n").encode() for row in rows)


def _quoted(text: str) -> str:
    """A text of protobuf's text format: what is not plain ASCII as octal bytes."""
    plain = [chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in text.encode()]
    return f'"{"".join(plain)}"'


def _sprite(pictures: Any) -> Any:
    """Pictures (N, 3, H, W) → one (S, C W, 3), in rows of C = ⌈√N⌉. S is C W too where that is high enough: the
    projector wants a square, and finds how many are in a row by the width.
    """
    count, _, height, width = pictures.shape
    columns = max(1, ceil(count**0.5))
    side = columns * width
    whole = np.zeros((max(side, ceil(count / columns) * height), side, 3), np.uint8)
    for at, picture in enumerate(pictures):
        top, left = at // columns * height, at % columns * width
        whole[top : top + height, left : left + width] = picture.transpose(1, 2, 0)
    return whole
