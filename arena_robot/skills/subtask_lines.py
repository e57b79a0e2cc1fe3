"""
A line language for subtasks; each line stands for one subtask in RoboGen's Python.

::

    grasp OBJECT [LINK]
    release
    reach OBJECT [LINK]
    joint OBJECT JOINT GOAL TOLERANCE     GOAL: upper, lower, or a share of the range such as 0.5
    move OBJECT TARGET TOLERANCE          bring an object to another, within metres
    lift OBJECT HEIGHT                    bring an object above a height in metres

A small model or a grammar writes lines; what is stored and executed is the Python.
"""

from dataclasses import dataclass

from arena_robot.core.errors import ModelBadReply
from arena_robot.skills.base import SkillActionSpace, Subtask, SubtaskKind, TaskSpec

UPPER, LOWER = 'upper', 'lower'
MOST_LINES = 12
_WORDS = {'grasp': (1, 2), 'release': (0, 0), 'reach': (1, 2), 'joint': (4, 4), 'move': (3, 3),
          'lift': (2, 2)}


@dataclass(frozen=True)
class PlanStep:
    """One line: its verb, the names it has, a goal where it has one, a tolerance or height."""

    verb: str
    names: tuple[str, ...] = ()
    goal: str = ''
    amount: float = 0.0

    def text(self) -> str:
        """Return the line."""
        words = [self.verb, *self.names, *([self.goal] if self.goal else []),
                 *([f'{self.amount:g}'] if self.amount else [])]
        return ' '.join(words)


def parse_lines(text: str) -> tuple[PlanStep, ...]:
    """Return the steps of a text; ModelBadReply names the first line that does not fit."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if not 1 <= len(lines) <= MOST_LINES:
        raise ModelBadReply(f'a plan has 1 to {MOST_LINES} lines, found {len(lines)}')
    return tuple(_step(line) for line in lines)


def expand(step: PlanStep, spec: TaskSpec) -> Subtask:
    """Return the subtask in Python; a joint's link is looked up in the specification."""
    if step.verb == 'grasp':
        return _grasp(step)
    if step.verb == 'release':
        return Subtask('release the grasp', SubtaskKind.PRIMITIVE,
                       'rgbs, final_state = release_grasp(self)\nsuccess = True\n')
    name, body = {'reach': _reach, 'move': _move, 'lift': _lift}[step.verb](step) \
        if step.verb != 'joint' else _joint(step, spec)
    code = ''.join(f'    {line}\n' for line in [*body, 'return reward, success'])
    return Subtask(name, SubtaskKind.REWARD, f'def _compute_reward(self):\n{code}',
                   SkillActionSpace.TRANSLATION)


def moved_link(spec: TaskSpec, object_name: str, joint: str) -> str:
    """Return the link that a joint moves, empty when there is no such joint."""
    return next((j.link for o in spec.objects if o.name == object_name
                 for j in o.joints if j.name == joint), '')


def held_link(spec: TaskSpec, object_name: str, joint: str) -> str:
    """Return the handle on the link that a joint moves, or the link where it has none."""
    link = moved_link(spec, object_name, joint)
    return next((k.name for o in spec.objects if o.name == object_name for k in o.links
                 if k.parent == link and k.semantics == 'handle'), link)


def _step(line: str) -> PlanStep:
    verb, *words = line.split()
    least, most = _WORDS.get(verb, (-1, -1))
    if not least <= len(words) <= most:
        raise ModelBadReply(f"no such line: '{line[:80]}'")
    if verb == 'joint':
        goal = words[2] if words[2] in (UPPER, LOWER) else f'{_number(words[2], 1.0):g}'
        return PlanStep(verb, tuple(words[:2]), goal, _number(words[3], 1.0))
    if verb in ('move', 'lift'):
        return PlanStep(verb, tuple(words[:-1]), '', _number(words[-1], 2.0))
    return PlanStep(verb, tuple(words))


def _number(word: str, most: float) -> float:
    try:
        value = float(word)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= most:
        raise ModelBadReply(f"expected a number above 0, at most {most:g}, found '{word[:40]}'")
    return value


def _quoted(names: tuple[str, ...]) -> str:
    return ', '.join(f'"{name}"' for name in names)


def _grasp(step: PlanStep) -> Subtask:
    call = 'grasp_object_link' if len(step.names) == 2 else 'grasp_object'
    names = _quoted(step.names)
    return Subtask(f'grasp the {" of the ".join(reversed(step.names))}', SubtaskKind.PRIMITIVE,
                   f'rgbs, final_state = {call}(self, {names})\n'
                   f'success = check_grasped(self, {names})\n')


def _place_of(names: tuple[str, ...]) -> str:
    call = 'get_link_state' if len(names) == 2 else 'get_position'
    return f'{call}(self, {_quoted(names)})'


def _joint(step: PlanStep, spec: TaskSpec) -> tuple[str, list[str]]:
    link = held_link(spec, *step.names)
    near = _place_of((step.names[0], link) if link else step.names[:1])
    goal = {UPPER: 'high', LOWER: 'low'}.get(step.goal, f'low + {step.goal} * (high - low)')
    where = f'its {step.goal} limit' if step.goal in (UPPER, LOWER) else f'{step.goal} of it'
    return f'move the joint {step.names[1]} of the {step.names[0]} to {where}', [
        f'near = np.linalg.norm(get_eef_pos(self)[0] - {near})',
        f'value = get_joint_state(self, {_quoted(step.names)})',
        f'low, high = get_joint_limit(self, {_quoted(step.names)})',
        f'goal = {goal}',
        'left = np.abs(value - goal)',
        'reward = -near - 5 * left',
        f'success = left < {step.amount:g} * (high - low)']


def _reach(step: PlanStep) -> tuple[str, list[str]]:
    return f'reach the {" of the ".join(reversed(step.names))}', [
        f'left = np.linalg.norm(get_eef_pos(self)[0] - {_place_of(step.names)})',
        'reward = -left',
        'success = left < 0.08']


def _move(step: PlanStep) -> tuple[str, list[str]]:
    return f'move the {step.names[0]} to the {step.names[1]}', [
        f'place = {_place_of(step.names[:1])}',
        f'target = {_place_of(step.names[1:])}',
        'left = np.linalg.norm(place - target)',
        'near = np.linalg.norm(get_eef_pos(self)[0] - place)',
        'reward = -near - 5 * left',
        f'success = left < {step.amount:g}']


def _lift(step: PlanStep) -> tuple[str, list[str]]:
    return f'lift the {step.names[0]}', [
        f'height = {_place_of(step.names)}[2]',
        f'near = np.linalg.norm(get_eef_pos(self)[0] - {_place_of(step.names)})',
        'reward = 5 * height - near',
        f'success = height > {step.amount:g}']
