"""
Draw docs/img/skill_tasks.jpg: skill tasks half way through their reference solutions.

    python docs/skill_picture.py docs/img/skill_tasks.jpg
"""

import sys
from pathlib import Path

import numpy as np

from arena_robot.core.observation import Pixels
from arena_robot.drivers.sim.expert import write_picture
from arena_robot.skills.specs.reference import reference_solution
from arena_robot.skills.specs.table import find_task
from arena_robot.trials.skills.executor import StationExecutor
from arena_robot.trials.skills.films import SkillFilm

TASKS = ('open_drawer_halfway', 'open_partial_box_lid', 'close_trash_can_lid',
         'adjust_laptop_screen_angle', 'close_door', 'open_window_halfway', 'turn_up_left_knob',
         'turn_on_right_lamp', 'set_lever_to_middle', 'turn_on_water_faucet', 'center_dimmer',
         'rotate_display_left', 'press_start_button', 'move_cube_to_left_mark')
SIZE, WINDOW = (720, 405), (slice(105, 345), slice(190, 510))
COLUMNS, SEED = 5, 2


def picture(name: str) -> Pixels:
    """Return the picture in the middle of the subtask with a reward."""
    task = find_task(name)
    solution = reference_solution(task)
    executor = StationExecutor(task)
    film = SkillFilm(task, solution, SEED, size=SIZE)
    film.make(solution.subtasks, executor.outcomes(task.spec, solution, SEED))
    executor.close()
    ends = [*film.begins[1:], len(film.frames)]
    middle = min(len(solution.subtasks) - 1, 1)
    frame = (2 * film.begins[middle] + 3 * ends[middle]) // 5
    return film.frames[frame][1][WINDOW]


def main(path: Path) -> None:
    """Write the sheet."""
    tiles = [picture(name) for name in TASKS]
    tiles += [np.full_like(tiles[0], 255)] * (-len(tiles) % COLUMNS)
    rows = [np.hstack(tiles[at:at + COLUMNS]) for at in range(0, len(tiles), COLUMNS)]
    write_picture(path, np.vstack(rows))


if __name__ == '__main__':
    main(Path(sys.argv[1]))
