import csv
from pathlib import Path

import pytest

from arena_robot.server.categories import CATEGORIES, categorise

REAL = Path(__file__).parents[3] / 'shared' / 'data' / 'roboarena' / 'task_categories.csv'


@pytest.mark.parametrize(('instruction', 'category'), [
    ('Open the top drawer', 'Open / Close'), ('stack the cups', 'Group / Organize / Stack'),
    ('put the tape into the drawer', 'Pick and Place'), ('do not move', 'Minimal or No Action'),
    ('knock the cup over', 'Knock Over / Topple'), ('slide the bowl', 'Move / Slide'),
    ('wipe the table', 'Tool Use'), ('find the pineapple', 'Find / Search'),
    ('Cover the drill with the rag', 'Cover / Drape / Fold'),
    ('sort the blocks by colour', 'Sorting / Classification'),
    ('press the red button', 'Object Manipulation'), ('frobnicate', 'Object Manipulation'),
    ('  ', '')])
def test_categories(instruction, category):
    assert categorise(instruction) == category


@pytest.mark.skipif(not REAL.exists(), reason='the checked instructions are not here')
def test_agreement_with_a_person():
    with REAL.open(newline='') as file:
        rows = list(csv.DictReader(file))
    assert {row['category'] for row in rows} <= set(CATEGORIES)
    members = [row for row in rows if row['is_member'] == '1']
    right = [categorise(row['instruction']) == row['category'] for row in members]
    assert sum(right) >= 90
