import csv

import pytest
from roboarena_tables import SAMPLE, WHOLE, needs_whole

from arena_robot.core.task_categories import CATEGORIES, categorise


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


@pytest.mark.parametrize(('tables', 'least'), [
    (SAMPLE, 20), pytest.param(WHOLE, 90, marks=needs_whole)], ids=['sample', 'whole'])
def test_agreement_with_a_person(tables, least):
    with (tables / 'task_categories.csv').open(newline='') as file:
        rows = list(csv.DictReader(file))
    assert {row['category'] for row in rows} <= set(CATEGORIES)
    members = [row for row in rows if row['is_member'] == '1']
    right = [categorise(row['instruction']) == row['category'] for row in members]
    assert sum(right) >= least
