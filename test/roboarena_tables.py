"""Where RoboArena's public evaluations lie: a sample in the repository, perhaps all of them."""

import os
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parent / 'data' / 'roboarena_sample'
WHOLE = Path(os.environ.get('ARENA_ROBOARENA')
             or Path(__file__).parents[2] / 'shared' / 'data' / 'roboarena')
POLICIES = [f'{name}_droid' for name in (
    'paligemma_binning', 'paligemma_diffusion', 'paligemma_fast', 'paligemma_fast_specialist',
    'paligemma_vq', 'pi0', 'pi0_fast')]

needs_whole = pytest.mark.skipif(
    not WHOLE.exists(), reason=f"the whole of RoboArena's snapshot is not in {WHOLE}; "
    'the same is tested on the sample in test/data')
both = pytest.mark.parametrize('tables', [
    SAMPLE, pytest.param(WHOLE, marks=needs_whole)], ids=['sample', 'whole'])


def load(database, folder: Path):
    """Insert the tables of a folder into a server's database, as `arena episode import` does."""
    from arena_robot.core.clock import SystemClock
    from arena_robot.records.roboarena_files import read_folder
    from arena_robot.server.store.evaluations import insert_evaluations
    return insert_evaluations(database, SystemClock(), read_folder(folder).sessions)
