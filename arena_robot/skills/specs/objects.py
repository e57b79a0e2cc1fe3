"""Objects of the tasks: their links, joints and limits, as the fixtures of the station have."""

import math

from arena_robot.skills.base import SkillJoint, SkillLink, SkillObject


def _object(name: str, category: str, links: tuple[tuple[str, str, str], ...],
            joints: tuple[tuple[str, str, float, float, str], ...]) -> SkillObject:
    return SkillObject(name, category, tuple(SkillLink(*link) for link in links),
                       tuple(SkillJoint(*joint) for joint in joints))


DRAWER = _object('Drawer', 'StorageFurniture', (
    ('case', '', 'furniture body'), ('tray', 'case', 'drawer'), ('handle', 'tray', 'handle')),
    (('slide', 'slide', 0.0, 0.13, 'tray'),))
BOX = _object('Box', 'Box', (
    ('case', '', 'box body'), ('lid', 'case', 'rotation lid'), ('tab', 'lid', 'handle')),
    (('hinge', 'hinge', 0.0, 1.25, 'lid'),))
TRASHCAN = _object('TrashCan', 'TrashCan', (
    ('bin', '', 'container'), ('lid', 'bin', 'rotation lid'), ('tab', 'lid', 'handle')),
    (('hinge', 'hinge', 0.0, 1.25, 'lid'),))
LAPTOP = _object('Laptop', 'Laptop', (
    ('base', '', 'keyboard'), ('screen', 'base', 'screen'), ('edge', 'screen', 'handle')),
    (('hinge', 'hinge', 0.0, 1.3, 'screen'),))
STOVE = _object('Stove', 'Oven', (
    ('panel', '', 'body'), ('left_knob', 'panel', 'knob'), ('right_knob', 'panel', 'knob')),
    (('left_turn', 'hinge', 0.0, 1.8, 'left_knob'),
     ('right_turn', 'hinge', 0.0, 1.8, 'right_knob')))
COFFEE = _object('CoffeeMachine', 'CoffeeMachine', (
    ('body', '', 'body'), ('arm', 'body', 'lever'), ('grip', 'arm', 'handle')),
    (('lever', 'hinge', 0.0, 1.0, 'arm'),))
LAMPS = _object('LampPanel', 'Switch', (
    ('panel', '', 'body'), ('left_switch', 'panel', 'toggle switch'),
    ('right_switch', 'panel', 'toggle switch')),
    (('left_toggle', 'hinge', 0.0, 0.8, 'left_switch'),
     ('right_toggle', 'hinge', 0.0, 0.8, 'right_switch')))
FAUCET = _object('Faucet', 'Faucet', (
    ('base', '', 'body'), ('handle', 'base', 'switch'), ('spout', 'base', 'spout')),
    (('valve', 'hinge', 0.0, 1.4, 'handle'), ('swivel', 'hinge', -0.8, 0.8, 'spout')))
DIMMER = _object('Dimmer', 'Slider', (
    ('rail', '', 'body'), ('tab', 'rail', 'slider')),
    (('slide', 'slide', 0.0, 0.14, 'tab'),))
WINDOW = _object('Window', 'Window', (
    ('frame', '', 'frame'), ('pane', 'frame', 'sliding window'), ('handle', 'pane', 'handle')),
    (('slide', 'slide', 0.0, 0.15, 'pane'),))
CABINET = _object('Cabinet', 'Door', (
    ('case', '', 'furniture body'), ('door', 'case', 'rotation door'),
    ('handle', 'door', 'handle')),
    (('hinge', 'hinge', 0.0, math.radians(75.0), 'door'),))
DISHWASHER = _object('Dishwasher', 'Dishwasher', (
    ('panel', '', 'body'), ('start_button', 'panel', 'button'),
    ('stop_button', 'panel', 'button')),
    (('start', 'slide', -0.008, 0.0, 'start_button'),
     ('stop', 'slide', -0.008, 0.0, 'stop_button')))
DISPLAY = _object('Display', 'Display', (
    ('stand', '', 'stand'), ('screen', 'stand', 'screen'), ('edge', 'screen', 'handle')),
    (('turn', 'hinge', -0.9, 0.9, 'screen'),))
CUBE = _object('Cube', 'Block', (('body', '', 'solid'),), ())
LEFT_MARK = _object('LeftMark', 'Mark', (('area', '', 'square of tape on the left'),), ())
RIGHT_MARK = _object('RightMark', 'Mark', (('area', '', 'square of tape on the right'),), ())
