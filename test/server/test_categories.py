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
    ('  ', ''), ('put the eraser in the bowl', 'Pick and Place'),
    ('take the tape and do not touch the cup', 'Pick and Place'), ('wipte the table', 'Tool Use'),
    ('just touch the box and nothing else', 'Find / Search'),
    ('put the lid on, then open the drawer', 'Open / Close'), ('Push the door', 'Open / Close'),
    ('push over the block', 'Knock Over / Topple'), ('push the block over there', 'Move / Slide'),
    ('put everything in the pot', 'Group / Organize / Stack'),
    ('put all cups in the pot', 'Sorting / Classification'),
    ('close your gripper and pause', 'Minimal or No Action'),
    ('Pick up the bread using the tongs', 'Tool Use')])
def test_categories(instruction, category):
    assert categorise(instruction) == category


@pytest.mark.parametrize(('tables', 'least'), [
    (SAMPLE, 25), pytest.param(WHOLE, 96, marks=needs_whole)], ids=['sample', 'whole'])
def test_agreement_with_a_person(tables, least):
    with (tables / 'task_categories.csv').open(newline='') as file:
        rows = list(csv.DictReader(file))
    assert {row['category'] for row in rows} <= set(CATEGORIES)
    members = [row for row in rows if row['is_member'] == '1']
    right = [categorise(row['instruction']) == row['category'] for row in members]
    assert sum(right) >= least
