"""
Draw the pictures of docs/foxglove.md, docs/from_lerobot.md and docs/gymnasium.md.

  arena view SESSION --foxglove --out both
  python docs/tool_pictures.py foxglove both docs/img/foxglove.webp
  arena episode export SESSION --format lerobot --output set
  python docs/tool_pictures.py lerobot set docs/img/lerobot.webp
  python docs/tool_pictures.py gymnasium - docs/img/gymnasium.webp

SESSION is a finished session. The first draws every panel of the folder's own layout where the
layout puts it, from the bag beside it. The second draws a dataset as LeRobot has it: pictures of
an episode, state and action. The third draws what eight environments of a vector render after
random steps.
"""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import gymnasium
import numpy as np
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from PIL import Image

from arena_robot.recording.bag.codec import Codec
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.formats.foxglove import LAYOUT
from arena_robot.recording.formats.lerobot_episodes import read_lerobot

SIZE_IN, DPI = (11.0, 7.0), 100
MARGIN = 0.012    # around a panel, as a share of the whole
SHARE = 0.6       # of the recording's time, at which pictures are shown
SHOWN = 5         # pictures of an episode
ENVIRONMENTS, STEPS = 8, 20    # of a vector, and how often each moves before it is drawn
Box = tuple[float, float, float, float]


def panels(part: Any, box: Box = (0.0, 0.0, 1.0, 1.0)) -> Iterator[tuple[str, Box]]:
    """Yield each panel of a layout with left, top, width, height as shares."""
    if isinstance(part, str):
        yield part, box
        return
    left, top, width, height = box
    share = part['splitPercentage'] / 100.0
    row = part['direction'] == 'row'
    first = (left, top, width * share, height) if row else (left, top, width, height * share)
    second = ((left + width * share, top, width * (1 - share), height) if row else
              (left, top + height * share, width, height * (1 - share)))
    yield from panels(part['first'], first)
    yield from panels(part['second'], second)


def value_of(message: Any, path: str) -> float:
    """Return the number behind ``field`` or ``field[index]``."""
    field, _, index = path.partition('[')
    value = getattr(message, field)
    return float(value[int(index[:-1])] if index else value)


def draw_foxglove(folder: Path) -> plt.Figure:
    """Return the panels of a folder of `arena view --foxglove`."""
    layout = json.loads((folder / LAYOUT).read_text(encoding='utf-8'))
    figure = plt.figure(figsize=SIZE_IN, facecolor='#e8e8ec')
    codec = Codec()
    with BagReader(folder) as bag:
        for topic in bag.topics.values():
            codec.teach(topic.type, topic.definition)
        stamps = [message.log_ns for message in bag.messages()]
        at_ns = stamps[0] + round(SHARE * (stamps[-1] - stamps[0]))
        for name, (left, top, width, height) in panels(layout['layout']):
            axes = figure.add_axes((left + 3 * MARGIN, 1 - top - height + 2 * MARGIN,
                                    width - 4 * MARGIN, height - 4 * MARGIN))
            config = layout['configById'][name]
            if 'imageMode' in config:
                topic = config['imageMode']['imageTopic']
                shown = [message for stamp, message in bag.decoded(codec, [topic])
                         if stamp.log_ns <= at_ns][-1]
                axes.imshow(Image.open(io.BytesIO(bytes(shown.data))))
                axes.axis('off')
                axes.set_title(topic, fontsize=6, pad=2)
                continue
            for path in config['paths']:
                topic, _, field = path['value'].partition('.')
                rows = [((stamp.log_ns - stamps[0]) * 1e-9, value_of(message, field))
                        for stamp, message in bag.decoded(codec, [topic])]
                axes.plot(*np.transpose(rows), linewidth=0.8)
            axes.axvline((at_ns - stamps[0]) * 1e-9, color='grey', linewidth=0.6)
            axes.set_title(config['title'], fontsize=7, pad=2)
            axes.tick_params(labelsize=5, pad=1)
            axes.ticklabel_format(useOffset=False, style='plain')
    return figure


def frames(path: Path) -> list[Any]:
    """Return all frames of a film."""
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format='rgb24') for frame in film.decode(video=0)]


def draw_lerobot(folder: Path) -> plt.Figure:
    """Return the first episode of an export: its pictures, its state and its action."""
    dataset = read_lerobot(folder)
    row = dataset.episodes[0]
    table = pq.read_table(sorted(folder.glob('data/*/*.parquet'))[0]).to_pydict()
    mine = [k for k, index in enumerate(table['episode_index']) if index == row['episode_index']]
    seconds = [table['timestamp'][k] for k in mine]
    cameras = [key for key in dataset.info['features'] if key.startswith('observation.images.')
               and not key.endswith('_right')]
    figure = plt.figure(figsize=SIZE_IN, layout='constrained')
    grid = figure.add_gridspec(len(cameras) + 2, SHOWN)
    for line, key in enumerate(cameras):
        film = frames(sorted(folder.glob(f'videos/{key}/*/*.mp4'))[0])
        for column, k in enumerate(np.linspace(0, len(mine) - 1, SHOWN).round().astype(int)):
            axes = figure.add_subplot(grid[line, column])
            axes.imshow(film[mine[int(k)]])
            axes.axis('off')
            name = f'{key.rpartition(".")[2]}, ' if column == 0 else ''
            axes.set_title(f'{name}{seconds[int(k)]:.1f} s', fontsize=7, pad=2)
    for line, key in enumerate(('observation.state', 'action')):
        axes = figure.add_subplot(grid[len(cameras) + line, :])
        axes.plot(seconds, [table[key][k] for k in mine], linewidth=1.0)
        axes.set_ylabel(key, fontsize=8)
        axes.legend(dataset.info['features'][key]['names'], fontsize=6, ncols=8, loc='upper left')
    figure.suptitle(f'{row["tasks"][0]} · {len(mine)} frames at {dataset.info["fps"]} Hz · '
                    f'success: {row.get("success")}', fontsize=10)
    return figure


def draw_gymnasium(_: Path) -> plt.Figure:
    """Return what each environment of a vector renders."""
    envs = gymnasium.make_vec(
        'arena_robot.drivers.sim.droid_gym:arena_robot/DroidStation-v0', ENVIRONMENTS,
        vectorization_mode='sync', task='cube_in_bowl', render_mode='rgb_array')
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(STEPS):
        envs.step(envs.action_space.sample())
    figure, grid = plt.subplots(2, ENVIRONMENTS // 2, figsize=(SIZE_IN[0], 3.6),
                                layout='constrained')
    for k, (axes, picture) in enumerate(zip(grid.flat, envs.render(), strict=True)):
        axes.imshow(picture)
        axes.axis('off')
        axes.set_title(f'environment {k}', fontsize=7, pad=2)
    envs.close()
    return figure


DRAWN = {'foxglove': draw_foxglove, 'lerobot': draw_lerobot, 'gymnasium': draw_gymnasium}


def main() -> None:
    """Draw, and write the picture."""
    figure, out = DRAWN[sys.argv[1]](Path(sys.argv[2])), Path(sys.argv[3])
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=DPI)
    Image.open(drawn).convert('RGB').save(out, quality=72)
    sys.stdout.write(f'{out}: {out.stat().st_size / 1e3:.0f} kB\n')


if __name__ == '__main__':
    main()
