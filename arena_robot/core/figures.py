"""
Figures without a display, saved as PNG or SVG by the file's suffix.

Matplotlib is loaded by the first figure: it takes a third of a second, and a server that has just
started shows its pages before anybody asks for a picture.
"""

import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_robot.core.errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LINE = '#22303c', '#2a6f97'
COLOURS = ('#2a6f97', '#c1666b', '#4c956c', '#d4a017', '#8e3fa8', '#5c677d', '#e07a5f', '#118ab2')
SUFFIXES = ('.png', '.svg')
_STYLE = threading.Lock()    # Matplotlib's settings are those of the process


def empty_figure(width_in: float, height_in: float, **options: Any) -> 'Figure':
    """Return a figure of this size in inches without axes; ``options`` are those of Matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    figure = Figure(figsize=(width_in, height_in), **options)
    FigureCanvasAgg(figure)
    return figure


def new_figure(width_in: float, height_in: float) -> 'tuple[Figure, Axes]':
    """Return a figure of this size in inches with one plain pair of axes."""
    figure = empty_figure(width_in, height_in, layout='constrained')
    axes = figure.add_subplot()
    plain_axes(axes)
    return figure, axes


def plain_axes(axes: 'Axes') -> None:
    """Leave only the left and the lower line of axes, with small labels."""
    axes.spines[['top', 'right']].set_visible(False)
    axes.tick_params(labelsize=8, colors=INK)


def plain_text(text: str) -> str:
    """Return a text that Matplotlib draws as it is, without formulas between dollar signs."""
    return text.replace('$', r'\$')


def save_figure(figure: 'Figure', path: Path | str) -> None:
    """
    Write the figure, making the folders above it.

    :raises DataError: the name does not end in .png or .svg, or cannot be written.
    """
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise DataError(f"cannot draw '{target}': the name must end in {' or '.join(SUFFIXES)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise DataError(f"cannot draw '{target}': {error}") from error


def figure_bytes(figure: 'Figure', kind: str) -> bytes:
    """
    Return the figure as a file of ``kind``, 'png' or 'svg'.

    Its text stays text in an SVG; the same figure gives the same bytes.
    """
    from matplotlib.style import context
    stream = io.BytesIO()
    with _STYLE, context({'svg.fonttype': 'none', 'svg.hashsalt': 'arena'}):
        figure.savefig(stream, format=kind, dpi=120,
                       metadata={'Date': None} if kind == 'svg' else None)
    return stream.getvalue()
