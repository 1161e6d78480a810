"""Batches of time series and of folders of pictures, by the names of keras.utils."""

from __future__ import annotations

import os
import wave
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..audio.resampling import resample
from ..datasets.folders import read_picture
from ..engine import Tensor, ops
from ..engine.lazy import np
from ..errors import FileFormatError
from .layers.images import Resizing

PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".webp")


class BatchedSource:
    """Batches by their numbers, in an order that may change with each pass. With `batch_size` None examples alone."""

    def __init__(self, order: Any, batch_size: int | None, shuffle: bool, seed: int | None) -> None:
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
            raise ValueError(f"batch_size is a positive integer or None, not {batch_size!r}")
        self.order, self.batch_size, self.shuffle = order, batch_size, shuffle
        self._random = np.random.RandomState(seed)
        self._functions: list[Callable[..., Any]] = []
        self.on_epoch_end()

    def batch(self, places: Any) -> Any:
        """The batch of these examples."""
        raise NotImplementedError

    def __len__(self) -> int:
        return -(-len(self.order) // (self.batch_size or 1))

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"there are {len(self)} batches, not {index + 1}")
        size = self.batch_size or 1
        found = self.batch(self.order[index * size : (index + 1) * size])
        if self.batch_size is None:
            found = tuple(part[0] for part in found) if isinstance(found, tuple) else found[0]
        for function in self._functions:
            found = function(*found) if isinstance(found, tuple) else function(found)
        return found

    def __iter__(self) -> Any:
        for k in range(len(self)):
            yield self[k]
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        if self.shuffle:
            self._random.shuffle(self.order)

    def map(self, function: Callable[..., Any], **_: Any) -> BatchedSource:
        """Calls a function with each batch."""
        self._functions.append(function)
        return self

    def prefetch(self, *_: Any) -> BatchedSource:
        """Itself: batches are made when they are asked for."""
        return self

    cache = prefetch


class _Windows(BatchedSource):
    def __init__(self, data: Any, targets: Any, starts: Any, steps: Any, *settings: Any) -> None:
        self.data, self.targets, self.steps = data, targets, steps
        super().__init__(starts, *settings)

    def batch(self, places: Any) -> Any:
        x = self.data[places[:, None] + self.steps]
        return x if self.targets is None else (x, self.targets[places])


def _check_format(name: str, format: str | None) -> None:
    """ValueError for a form of datasets that Keras does not have either."""
    if format not in (None, "tf", "grain"):
        raise ValueError(f"{name}: format is tf or grain, whose place a dataset of pyapp takes, not {format!r}")


def timeseries_dataset_from_array(
    data: Any, targets: Any, sequence_length: int, sequence_stride: int = 1, sampling_rate: int = 1,
    batch_size: int | None = 128, shuffle: bool = False, seed: int | None = None, start_index: int | None = None,
    end_index: int | None = None, format: str | None = None,
) -> BatchedSource:  # fmt: skip
    """Windows of a series (T, ...) as batches: x (B, sequence_length, ...), and the target of each first step."""
    _check_format("timeseries_dataset_from_array", format)
    count = len(data)
    first, last = start_index or 0, count if end_index is None else end_index
    if not 0 <= first < last <= count:
        raise ValueError(f"timeseries_dataset_from_array: {first} … {last} is not a part of a series of {count} steps")
    for name, value in (
        ("sequence_length", sequence_length), ("sequence_stride", sequence_stride), ("sampling_rate", sampling_rate)
    ):  # fmt: skip
        if value < 1 or value > last - first:
            raise ValueError(f"timeseries_dataset_from_array: {name} is 1 … {last - first}, got {value}")
    series = np.asarray(data)[first:last]
    labels = None if targets is None else np.asarray(targets)[first:last]
    windows = len(series) - (sequence_length - 1) * sampling_rate
    if labels is not None:
        windows = min(windows, len(labels))
    if windows < 1:
        raise ValueError(
            f"timeseries_dataset_from_array: {sequence_length} steps, each {sampling_rate} on, leave {len(series)}"
        )
    starts, steps = np.arange(0, windows, sequence_stride), np.arange(sequence_length) * sampling_rate
    return _Windows(series, labels, starts, steps, batch_size, shuffle, seed)


class PictureFolder(BatchedSource):
    """Pictures of a folder: float32 (B, H, W, C) in 0 … 255, and their classes."""

    def __init__(
        self, paths: list[str], labels: Any, class_names: list[str], color_mode: str, size: tuple[int, int],
        interpolation: str, crops: bool, pads: bool, *settings: Any,
    ) -> None:  # fmt: skip
        self.file_paths, self.labels, self.class_names, self.color_mode = paths, labels, class_names, color_mode
        self._resize = Resizing(*size, interpolation, crops, pads, data_format="channels_last")
        super().__init__(np.arange(len(paths)), *settings)

    def batch(self, places: Any) -> Any:
        mode = {"rgb": "RGB", "grayscale": "L", "rgba": "RGBA"}[self.color_mode]
        rows: list[Tensor] = []
        for place in places:
            rows.append(self._resize(read_picture(self.file_paths[place], mode).movedim(0, -1)))  # (H, W, C)
        x = ops.stack(rows)
        return x if self.labels is None else (x, self.labels[places])


class _FolderOfClasses:
    """The files of a folder and their classes, in the parts that the arguments of Keras' functions ask for."""

    def __init__(
        self, name: str, directory: str | os.PathLike[str], labels: Any, label_mode: str | None,
        class_names: Sequence[str] | None, endings: tuple[str, ...], shuffle: bool, seed: int | None,
        validation_split: float | None, subset: str | None, follow_links: bool, format: str | None, verbose: bool,
    ) -> None:  # fmt: skip
        root = Path(directory)
        if not root.is_dir():
            raise FileNotFoundError(f"{name}: there is no folder {root}")
        _check_format(name, format)
        if label_mode not in ("int", "binary", "categorical", None):
            raise ValueError(f"label_mode is int, binary, categorical or None, not {label_mode!r}")
        if (validation_split is None) != (subset is None) or subset not in ("training", "validation", "both", None):
            raise ValueError("validation_split is given together with subset: training, validation or both")
        if validation_split is not None and not 0 < validation_split < 1:
            raise ValueError(f"validation_split is between 0 and 1, not {validation_split}")
        if subset is not None and shuffle and seed is None:
            raise ValueError("a shuffled validation_split takes a seed, or the parts would overlap")
        inferred = isinstance(labels, str) and labels == "inferred"
        found = sorted(entry.name for entry in root.iterdir() if entry.is_dir()) if inferred else [""]
        self.names = list(class_names or found) if inferred else [""]
        if inferred and set(self.names) != set(found):
            raise ValueError(f"class_names are {self.names}, the folders of {root} {found}")
        self.paths: list[str] = []
        classes: list[int] = []
        for number, below_root in enumerate(self.names):
            for folder, below, files in os.walk(root / below_root, followlinks=follow_links):
                below.sort()
                for file in sorted(files):
                    if file.lower().endswith(endings):
                        self.paths.append(os.path.join(folder, file))
                        classes.append(number)
        if not self.paths:
            raise ValueError(f"{name}: {root} has no files ending in {', '.join(endings)}")
        if not inferred and labels is not None:
            if len(labels) != len(self.paths):
                raise ValueError(f"there are {len(labels)} labels for {len(self.paths)} files")
            classes = list(labels)
        if verbose:
            print(f"Found {len(self.paths)} files" + (f" belonging to {len(self.names)} classes." if inferred else "."))
        values: Any = np.asarray(classes)
        values = values.astype("int32") if values.dtype.kind == "i" else values
        if label_mode is None or labels is None:
            values = None
        elif label_mode == "categorical":
            values = np.eye(len(self.names), dtype="float32")[values]
        elif label_mode == "binary":
            if inferred and len(self.names) != 2:
                raise ValueError(f"label_mode='binary' takes two classes, there are {len(self.names)}")
            values = values.astype("float32").reshape(-1, 1)
        self.values, self.subset, self.split = values, subset, validation_split or 0
        self.order = np.arange(len(self.paths))
        if shuffle and seed is not None:
            np.random.RandomState(seed).shuffle(self.order)

    def parts(self, make: Callable[[list[str], Any], Any]) -> Any:
        """make(paths, labels) for the part that `subset` names, or for both."""

        def part(places: Any) -> Any:
            return make([self.paths[k] for k in places], None if self.values is None else self.values[places])

        if self.subset is None:
            return part(self.order)
        count = len(self.order) - int(self.split * len(self.order))
        training, validation = self.order[:count], self.order[count:]
        if self.subset == "both":
            return part(training), part(validation)
        return part(training if self.subset == "training" else validation)


def image_dataset_from_directory(
    directory: str | os.PathLike[str], labels: Any = "inferred", label_mode: str | None = "int",
    class_names: Sequence[str] | None = None, color_mode: str = "rgb", batch_size: int | None = 32,
    image_size: tuple[int, int] = (256, 256), shuffle: bool = True, seed: int | None = None,
    validation_split: float | None = None, subset: str | None = None, interpolation: str = "bilinear",
    follow_links: bool = False, crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False,
    data_format: str | None = None, format: str | None = None, verbose: bool = True,
) -> Any:  # fmt: skip
    """Pictures in a folder for each class, as batches. label_mode: int, binary, categorical or None (pictures alone).
    `validation_split` with `subset` training, validation or both cuts a part off; with `shuffle` it takes a `seed`.
    """
    if data_format not in (None, "channels_last"):
        raise ValueError("image_dataset_from_directory: its pictures have their channels last; move them with Permute")
    if color_mode not in ("rgb", "grayscale", "rgba"):
        raise ValueError(f"color_mode is rgb, grayscale or rgba, not {color_mode!r}")
    files = _FolderOfClasses(
        "image_dataset_from_directory", directory, labels, label_mode, class_names, PICTURES, shuffle, seed,
        validation_split, subset, follow_links, format, verbose,
    )  # fmt: skip
    return files.parts(
        lambda paths, values: PictureFolder(
            paths, values, files.names, color_mode, image_size, interpolation, crop_to_aspect_ratio,
            pad_to_aspect_ratio, batch_size, shuffle, seed,
        )
    )  # fmt: skip


class _Files(BatchedSource):
    """What `read` makes of files, joined by `join`, and their classes."""

    def __init__(
        self, paths: list[str], labels: Any, class_names: list[str], read: Callable[[str], Any],
        join: Callable[[list[Any]], Any], *settings: Any,
    ) -> None:  # fmt: skip
        self.file_paths, self.labels, self.class_names, self._read, self._join = paths, labels, class_names, read, join
        super().__init__(np.arange(len(paths)), *settings)

    def batch(self, places: Any) -> Any:
        x = self._join([self._read(self.file_paths[place]) for place in places])
        return x if self.labels is None else (x, self.labels[places])


def text_dataset_from_directory(
    directory: str | os.PathLike[str], labels: Any = "inferred", label_mode: str | None = "int",
    class_names: Sequence[str] | None = None, batch_size: int | None = 32, max_length: int | None = None,
    shuffle: bool = True, seed: int | None = None, validation_split: float | None = None, subset: str | None = None,
    follow_links: bool = False, format: str | None = None, verbose: bool = True,
) -> Any:  # fmt: skip
    """Text files (.txt, UTF-8) in a folder for each class, as batches of texts: NumPy arrays (B,) of str."""
    files = _FolderOfClasses(
        "text_dataset_from_directory", directory, labels, label_mode, class_names, (".txt",), shuffle, seed,
        validation_split, subset, follow_links, format, verbose,
    )  # fmt: skip

    def read(path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8")[:max_length]
        except UnicodeDecodeError as error:
            raise FileFormatError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error

    def join(texts: list[str]) -> Any:
        found = np.empty(len(texts), dtype=object)
        found[:] = texts
        return found

    return files.parts(lambda paths, y: _Files(paths, y, files.names, read, join, batch_size, shuffle, seed))


def audio_dataset_from_directory(
    directory: str | os.PathLike[str], labels: Any = "inferred", label_mode: str | None = "int",
    class_names: Sequence[str] | None = None, batch_size: int | None = 32, sampling_rate: int | None = None,
    output_sequence_length: int | None = None, ragged: bool = False, shuffle: bool = True, seed: int | None = None,
    validation_split: float | None = None, subset: str | None = None, follow_links: bool = False,
    verbose: bool = True, format: str | None = None,
) -> Any:  # fmt: skip
    """WAV files in a folder for each class, as batches: float32 (B, samples, channels) from -1 to 1, zeros beyond the
    ends of short ones. `sampling_rate` resamples them, `output_sequence_length` cuts and fills them to one length."""
    if ragged:
        raise NotImplementedError("audio_dataset_from_directory: there are no ragged tensors; short files are filled")
    files = _FolderOfClasses(
        "audio_dataset_from_directory", directory, labels, label_mode, class_names, (".wav",), shuffle, seed,
        validation_split, subset, follow_links, format, verbose,
    )  # fmt: skip

    def join(sounds: list[Any]) -> Any:
        length = output_sequence_length or max(len(sound) for sound in sounds)
        channels = max(sound.shape[1] for sound in sounds)
        if any(sound.shape[1] != channels for sound in sounds):
            raise ValueError("audio_dataset_from_directory: the files of a batch have different numbers of channels")
        found = np.zeros((len(sounds), length, channels), "float32")
        for row, sound in zip(found, sounds, strict=True):
            row[: len(sound)] = sound[:length]
        return found

    return files.parts(
        lambda paths, y: _Files(
            paths, y, files.names, lambda path: _wav(path, sampling_rate), join, batch_size, shuffle, seed
        )
    )


def _wav(path: str, rate: int | None) -> Any:
    """The samples (samples, channels) of a WAV file of 8, 16, 24 or 32 bits."""
    try:
        with wave.open(path, "rb") as file:
            width, channels, own = file.getsampwidth(), file.getnchannels(), file.getframerate()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise FileFormatError(f"{path} is no WAV file with whole numbers: {error}") from error
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:
        values = np.frombuffer(data, "uint8").astype("float32") / 128 - 1
    elif width == 3:
        parts = np.frombuffer(data, "uint8").reshape(-1, 3).astype("int32")
        values = ((parts[:, 0] << 8 | parts[:, 1] << 16 | parts[:, 2] << 24) / 2**31).astype("float32")
    else:
        values = np.frombuffer(data, f"<i{width}").astype("float32") / 2 ** (8 * width - 1)
    values = values.reshape(-1, channels)
    if rate is None or rate == own:
        return values
    return np.stack([resample(np.ascontiguousarray(values[:, k]), own, rate) for k in range(channels)], 1)
