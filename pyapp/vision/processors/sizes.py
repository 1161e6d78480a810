"""The size that a picture becomes, and the tiles that it is cut into, by the rules of several models.

Sizes are (height, width) in pixels. A picture that is so narrow that it would become very long is an ArgumentError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, sqrt

from pyapp.errors import ArgumentError

from .settings import LARGEST

MOST = 4096  # pixels of a side of a picture with tiles


def shortest(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture whose shorter side is `side`."""
    if width <= height:
        return plausible(int(side * height / width), side)
    return plausible(side, int(side * width / height))


def longest(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture whose longer side is `side`, and at most MOST; of the shorter one an even number."""
    ratio = width / height
    short = int(side / ratio) if width >= height else int(side * ratio)
    short = max(1, short + short % 2)
    high, wide = (short, side) if width >= height else (side, short)
    ratio = wide / high
    if wide >= high and wide > MOST:
        return max(1, int(MOST / ratio)), MOST
    return (MOST, max(1, int(MOST * ratio))) if high > MOST else (high, wide)


def between(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """The size of a picture whose shorter side is `shortest`, but whose longer one is at most `longest`."""
    exact, low, high = float(shortest), min(height, width), max(height, width)
    if high / low * shortest > longest:
        exact = longest * low / high
        shortest = max(1, round(exact))
    if (height <= width and height == shortest) or (width <= height and width == shortest):
        return height, width
    if width < height:
        return plausible(max(1, int(exact * height / width)), shortest)
    return plausible(shortest, max(1, int(exact * width / height)))


def near(height: int, width: int, wanted: tuple[int, int], scaled: bool, multiple: int) -> tuple[int, int]:
    """The `wanted` size of a picture, each side rounded to a multiple; `scaled`: both sides are scaled alike, by the
    factor that is nearer to 1.
    """
    by_height, by_width = wanted[0] / height, wanted[1] / width
    if scaled:
        by_height = by_width = min(by_height, by_width, key=lambda scale: abs(1 - scale))
    high, wide = (round(side / multiple) * multiple for side in (by_height * height, by_width * width))
    return plausible(max(multiple, high), max(multiple, wide))


def in_multiples(height: int, width: int, most: Mapping[str, int], factor: int) -> tuple[int, int]:
    """The size of a picture that is made smaller to fit into `most`, with sides of the next multiples of `factor`."""
    limits = [most.get(name, most.get("longest_edge", LARGEST)) for name in ("height", "width")]
    ratio = max(height / limits[0], width / limits[1])
    high, wide = (floor(height / ratio), floor(width / ratio)) if ratio > 1 else (height, width)
    if min(high, wide) < 1:
        raise ArgumentError(f"a picture of {height:,} x {width:,} pixels is too narrow")
    return ceil(high / factor) * factor, ceil(wide / factor) * factor


def of_pair(height: int, width: int, side: int, multiple: int) -> tuple[int, int]:
    """ViLT: the size of a picture whose shorter side is `side` and whose longer one has at most five thirds of it,
    rounded down to multiples.
    """
    longest, scale = int(1333 / 800 * side), side / min(height, width)
    high, wide = (float(side), width * scale) if height < width else (height * scale, float(side))
    if max(high, wide) > longest:
        smaller = longest / max(high, wide)
        high, wide = high * smaller, wide * smaller
    high, wide = (max(int(part + 0.5) // multiple * multiple, multiple) for part in (high, wide))
    return plausible(int(high), int(wide))


def of_patches(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """The size of a picture of at most so many patches that keeps its shape as far as whole patches allow (Dehghani et
    al. 2023, arXiv 2307.06304). The scale is found by halving, with transformers' bounds.
    """

    def at(scale: float) -> tuple[int, int]:
        return ceil(height * scale / side) or 1, ceil(width * scale / side) or 1

    low, high = 1e-6, 100.0
    while high - low >= 1e-5:
        scale = (low + high) / 2
        rows, columns = at(scale)
        low, high = (scale, high) if rows * columns <= most else (low, scale)
    rows, columns = at(low)
    if rows * columns > most:
        raise ArgumentError(f"a picture of {height:,} x {width:,} pixels is too narrow for {most:,} patches")
    return rows * side, columns * side


def of_squares(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """The largest size of a picture of at most `most` squares of a side that keeps its shape, rounded down to whole
    squares; of a very narrow one, one square and as many along it as it is longer than wide.
    """
    scale = sqrt(most * side**2 / (height * width))
    rows, columns = (floor(scale * n / side) for n in (height, width))
    if not rows:
        rows, columns = 1, min(width // height, most)
    elif not columns:
        rows, columns = min(height // width, most), 1
    return rows * side, columns * side


def at_least(height: int, width: int, side: int) -> tuple[int, int]:
    """The size of a picture that is made larger until no side is smaller than `side`."""
    if height < side:
        height, width = side, round(width * side / height)
    return (round(height * side / width), side) if width < side else (height, width)


def of_pixels(
    height: int, width: int, factor: int, least: float, most: float, frames: int = 1, counted: int = 1
) -> tuple[int, int]:
    """The size of a picture whose sides are multiples of `factor`, with a number of pixels from `least` to `most`; of
    each of so many frames, which count as `counted` frames.
    """
    if max(height, width) > 200 * min(height, width):
        raise ArgumentError(
            f"a picture of {height:,} x {width:,} pixels is too narrow: a side is over 200 times the other"
        )
    high, wide = (round(side / factor) * factor for side in (height, width))
    if counted * high * wide > most:
        scale = sqrt(frames * height * width / most)
        return max(factor, floor(height / scale / factor) * factor), max(factor, floor(width / scale / factor) * factor)
    if counted * high * wide < least:
        scale = sqrt(least / (frames * height * width))
        return ceil(height * scale / factor) * factor, ceil(width * scale / factor) * factor
    return high, wide


def of_tokens(height: int, width: int, side: int, least: int, most: int) -> tuple[int, int]:
    """The size of a picture of `least` to `most` squares of a side."""
    high, wide = (max(side, round(n / side) * side) for n in (height, width))
    if high * wide > most * side**2:
        scale = sqrt(height * width / (most * side**2))
        high, wide = (max(side, floor(n / scale / side) * side) for n in (height, width))
    elif high * wide < least * side**2:
        scale = sqrt(least * side**2 / (height * width))
        high, wide = (ceil(n * scale / side) * side for n in (height, width))
    return plausible(high, wide)


def best_resolution(size: tuple[int, int], sizes: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Which of several sizes (height, width) shows the most of a picture, and of those that show the same has the least
    around it (Liu et al. 2024, LLaVA-NeXT).
    """
    (height, width), found, best = size, (sizes[0][0], sizes[0][1]), (0, 0)
    for high, wide in sizes:
        scale = min(wide / width, high / height)
        shown = min(int(width * scale) * int(height * scale), width * height)
        if (shown, shown - high * wide) > best or best == (0, 0):
            found, best = (high, wide), (shown, shown - high * wide)
    return found


def nearest_grid(height: int, width: int, tile: tuple[int, int], least: int, most: int) -> tuple[int, int]:
    """The rows and columns, of `least` to `most` tiles, whose shape is nearest to that of a picture; of equally near
    ones the larger, while it has less than twice the picture's pixels (Chen et al. 2024, arXiv 2404.16821).
    """
    found, best = (1, 1), float("inf")
    grids = [(rows, columns) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    for rows, columns in sorted(grids, key=lambda grid: grid[0] * grid[1]):
        if rows * columns < least:
            continue
        far = abs(width / height - columns / rows)
        if far < best:
            best, found = far, (rows, columns)
        elif far == best and width * height > 0.5 * tile[0] * tile[1] * rows * columns:
            found = rows, columns
    return found


def first_canvas(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """The rows and columns, of at most so many tiles, of the canvas that makes a picture larger the least, or smaller
    the least where none does not; of equal ones that of the fewest tiles, then of the fewest columns.
    """
    grids = [(rows, columns) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    scales = {
        grid: min(grid[1] * side / width, grid[0] * side / height)
        for grid in sorted(grids, key=lambda grid: grid[0] * grid[1])
    }
    larger = [scale for scale in scales.values() if scale >= 1]
    best = min(larger) if larger else max(scales.values())
    return next(grid for grid, scale in scales.items() if scale == best)


COVERED = 0.9  # of a picture's pixels, which tiles should show


def covering_grid(height: int, width: int, side: int, most: int) -> tuple[int, int]:
    """The rows and columns of the fewest tiles, of at most so many, that show more than COVERED of a picture's pixels,
    if a part's longer side is made no longer than `side`; of as many tiles those that show the most. Where none does,
    those that show the most (Ovis 2).
    """
    shows: dict[tuple[int, int], float] = {}
    grids = [(rows, columns) for rows in range(1, most + 1) for columns in range(1, most // rows + 1)]
    for first, second in sorted(grids, key=lambda grid: grid[0] * grid[1]):  # transformers cuts `first` rows
        highs = [height // first] * (first - 1) + [height - height // first * (first - 1)]
        wides = [width // second] * (second - 1) + [width - width // second * (second - 1)]
        total = 0.0
        for high in highs:
            for wide in wides:
                long, short = max(high, wide), min(high, wide)
                total += side * (short / long * side) if long > side else long * short
        shows[first, second] = total / (height * width)
    enough = [grid for grid, share in shows.items() if share > COVERED]
    fewest = [grid for grid in enough if grid[0] * grid[1] == enough[0][0] * enough[0][1]]
    columns, rows = max(fewest or shows, key=shows.__getitem__)  # of equal ones the first; it shows as many columns
    return rows, columns


def least_canvas(height: int, width: int, side: int, most: int, largest: bool = False) -> tuple[int, int]:
    """The rows and columns, of at most so many tiles, of the canvas that makes a picture larger the least, or smaller
    the least where none does not; of equal ones that of the fewest tiles. largest: that makes it the largest.
    """
    grids: dict[float, list[tuple[int, int]]] = {}  # by their shape, in the order of which the first counts
    for count in range(most, 0, -1):
        for rows in (rows for rows in range(1, count + 1) if count % rows == 0):
            grids.setdefault(rows / (count // rows), []).append((rows, count // rows))
    scales = {grid: min(grid[0] * side / height, grid[1] * side / width) for same in grids.values() for grid in same}
    larger = [scale for scale in scales.values() if scale >= 1]
    best = (max if largest else min)(larger) if larger else max(scales.values())
    return min((grid for grid, scale in scales.items() if scale == best), key=lambda grid: grid[0] * grid[1])


def plausible(height: int, width: int) -> tuple[int, int]:
    if max(height, width) > LARGEST * 8:
        raise ArgumentError(f"the picture is too narrow: it would become {height:,} x {width:,} pixels")
    return height, width
