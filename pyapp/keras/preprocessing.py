"""keras.preprocessing: other places of functions of keras.utils."""

from types import SimpleNamespace

from .importable import importable
from .picture_files import array_to_img, img_to_array, load_img, save_img, smart_resize
from .sources import image_dataset_from_directory, text_dataset_from_directory, timeseries_dataset_from_array
from .utils import pad_sequences

__all__ = [
    "image", "image_dataset_from_directory", "sequence", "text_dataset_from_directory",
    "timeseries_dataset_from_array",
]  # fmt: skip

image = SimpleNamespace(
    array_to_img=array_to_img, img_to_array=img_to_array, load_img=load_img, save_img=save_img,
    smart_resize=smart_resize,
)  # fmt: skip
sequence = SimpleNamespace(pad_sequences=pad_sequences)
importable(__name__, image=image, sequence=sequence)
