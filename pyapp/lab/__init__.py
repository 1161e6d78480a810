"""What cells of the page's Lab show beside text: tables, images, curves that grow, sound, a field to draw in, and a
button that opens files in another view.

>>> from pyapp import lab
>>> lab.table([{"layer": "dense", "parameters": 650}])
layer  parameters
dense         650

In the page these appear below the cell. Elsewhere they print a short text, so that a script runs anywhere.
"""

from .drawing import Drawing, drawing
from .image import image
from .opening import open_in
from .packages import install
from .plot import Curves, TrainingCurves, plot
from .sound import sound
from .table import table

__all__ = ["Curves", "Drawing", "TrainingCurves", "drawing", "image", "install", "open_in", "plot", "sound", "table"]
