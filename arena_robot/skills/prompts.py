"""
Prompts for policy models and judges: specification, allowed functions, exemplars, instructions.

The parts are those of the paper (Sec. 4.2 and appendix B), in words of this project.
"""

from collections.abc import Sequence
from typing import Any

from arena_robot.skills.base import Solution, SubtaskKind, TaskSpec

PRIMITIVE_API = ('grasp_object(self, object_name)',
                 'grasp_object_link(self, object_name, link_name)', 'release_grasp(self)',
                 'check_grasped(self, object_name, link_name=None)')
REWARD_API = ('get_eef_pos(self)  # (position, euler)', 'get_position(self, object_name)',
              'get_link_state(self, object_name, link_name)',
              'get_joint_state(self, object_name, joint_name)',
              'get_joint_limit(self, object_name, joint_name)  # (low, high)',
              'get_bounding_box(self, object_name)  # (low, high)',
              'get_bounding_box_link(self, object_name, link_name)  # (low, high)',
              'in_bbox(self, position, low, high)')
MOST_SUBTASKS, MOST_CODE = 30, 4000
SYSTEM = ('You write training supervision for a robot arm with a parallel gripper. You split a '
          'task into subtasks that are learned one after the other.')
_INSTRUCTIONS = """\
Split the task into as few subtasks as will do it, in order. A subtask is one of two kinds:
- primitive: code that calls one motion primitive and sets `success`, for instance
  rgbs, final_state = grasp_object_link(self, "object", "link")
  success = check_grasped(self, "object", "link")
- reward: a function `_compute_reward(self)` that returns (reward, success), for motion that has
  to be learned. `success` must be true only when the subtask is done, with a tolerance of at most
  a tenth of a joint's range for closing, of a fifth for opening or turning, of 0.06 m for placing.
Only numpy as np, arithmetic, comparisons and the functions above may be used. Names of objects,
links and joints must be those of the task. action_space is None for a primitive, delta-translation
or normalized-direct-translation for a reward."""
_SUBTASK = {'type': 'object', 'additionalProperties': False,
            'required': ['name', 'kind', 'action_space', 'code'],
            'properties': {'name': {'type': 'string', 'maxLength': 120},
                           'kind': {'type': 'string', 'enum': ['primitive', 'reward']},
                           'action_space': {'type': 'string', 'enum': [
                               'None', 'delta-translation', 'normalized-direct-translation']},
                           'code': {'type': 'string', 'maxLength': MOST_CODE}}}
SUBTASKS: dict[str, Any] = {
    'type': 'object', 'additionalProperties': False, 'required': ['subtasks'],
    'properties': {'subtasks': {'type': 'array', 'items': _SUBTASK, 'maxItems': MOST_SUBTASKS}}}
_SHARE = {'type': 'number'}    # limits are checked with the scene, which says them in words
_STARTS = {'type': 'array', 'maxItems': 20, 'items': {
    'type': 'object', 'additionalProperties': False, 'required': ['joint', 'start'],
    'properties': {'joint': {'type': 'string', 'maxLength': 80}, 'start': _SHARE}}}
SOLUTION: dict[str, Any] = {
    'type': 'object', 'additionalProperties': False,
    'required': ['objects', 'joints', 'subtasks'],
    'properties': {'objects': {'type': 'array', 'items': {'type': 'string', 'maxLength': 80},
                               'minItems': 1, 'maxItems': 20},
                   'joints': _STARTS,
                   'subtasks': {**SUBTASKS['properties']['subtasks'], 'minItems': 1}}}
_PROPOSAL = {
    'type': 'object', 'additionalProperties': False,
    'required': ['name', 'description', 'object', 'joint', 'target', 'starts'],
    'properties': {**{name: {'type': 'string', 'maxLength': 200} for name in (
        'name', 'description', 'object', 'joint')}, 'target': _SHARE, 'starts': _STARTS}}
PROPOSALS: dict[str, Any] = {
    'type': 'object', 'additionalProperties': False, 'required': ['tasks'],
    'properties': {'tasks': {'type': 'array', 'items': _PROPOSAL, 'maxItems': 20}}}


def solution_prompt(spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
                    refused: str = '') -> str:
    """Return the prompt for a whole solution; ``refused`` says why the scene before was."""
    return '\n\n'.join([*_beginning(spec, exemplars), *_refused(refused),
                        'Answer in JSON: objects (names of those that the task needs), joints '
                        '(`object/joint` and its start, a share of its range) and subtasks.'])


def proposal_prompt(spec: TaskSpec, count: int, refused: str = '') -> str:
    """Return the prompt for new tasks of a scene; ``refused`` says why others were."""
    return '\n\n'.join([
        spec_text(spec), *_refused(refused),
        f'Propose {count} other tasks of this scene for a robot arm. Each moves one joint of an '
        'object from its start to a target and leaves all other joints alone. Answer in JSON: '
        'tasks with name (a few words), description (a sentence), object, joint, target (a share '
        'of the range of the joint, 0 to 1), and starts (`object/joint` and its start, a share).'])


def _refused(reason: str) -> list[str]:
    return ['# What was refused before, and why', reason] if reason else []


def completion_prompt(spec: TaskSpec, prefix: Solution,
                      exemplars: Sequence[tuple[TaskSpec, Solution]], failure: str = '') -> str:
    """Return the prompt for the subtasks after a prefix; ``failure`` is of what followed it."""
    failed = ['# What was tried next and did not work', failure] if failure else []
    return '\n\n'.join([*_beginning(spec, exemplars), '# Begun',
                        subtasks_text(prefix) or 'nothing', *failed,
                        'The subtasks that were begun are kept and are done. Answer in JSON with '
                        'only the subtasks that follow them; none, if the task is done.'])


def judge_prompt(spec: TaskSpec, solution: Solution, length: int) -> str:
    """Return the prompt of a judge for the last of the first ``length`` subtasks."""
    return '\n\n'.join([
        'You know robot task planning well. Say whether a subtask of a robot has an error.',
        spec_text(spec), '# Subtask',
        _subtask_text(solution, length - 1),
        'Look for: in a primitive, no `rgbs, final_state = …`, or no `success`; in a reward, '
        'parts of the reward that are missing or badly weighted, or no `success`; anywhere, wrong '
        'names of objects, links and joints, functions that are not allowed or wrongly called, '
        'errors of language or logic. Do not mind that other subtasks are missing.',
        _api_text(), 'Answer in JSON with one number, `score`: 1 for no error, 0 for an error, '
        '0.5 only when you cannot tell.'])


JUDGED: dict[str, Any] = {'type': 'object', 'required': ['score'], 'additionalProperties': False,
                          'properties': {'score': {'type': 'number', 'minimum': 0, 'maximum': 1}}}


def spec_text(spec: TaskSpec) -> str:
    """Return the specification as text; the family is not in it."""
    lines = [f'# Task\n{spec.name}: {spec.description}']
    for thing in spec.objects:
        lines.append(f'object {thing.name} ({thing.category})')
        lines += [f'  link {k.name}' + (f', part of {k.parent}' if k.parent else '')
                  + (f', {k.semantics}' if k.semantics else '') for k in thing.links]
        for joint in thing.joints:
            start = spec.initial.get(f'{thing.name}/{joint.name}')
            start_text = f', starts at {start:g} of its range' if start is not None else ''
            lines.append(f'  joint {joint.name}: {joint.kind} from {joint.low:g} to '
                         f'{joint.high:g}, moves link {joint.link}{start_text}')
    return '\n'.join(lines)


def subtasks_text(solution: Solution) -> str:
    """Return the subtasks of a solution as text."""
    return '\n'.join(_subtask_text(solution, k) for k in range(len(solution.subtasks)))


def _beginning(spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]]) -> list[str]:
    parts = [_api_text(), f'# Instructions\n{_INSTRUCTIONS}']
    for other, solution in exemplars:
        parts += ['# A similar task that was done', spec_text(other).removeprefix('# Task\n'),
                  subtasks_text(solution)]
    return [*parts, spec_text(spec)]


def _subtask_text(solution: Solution, index: int) -> str:
    subtask = solution.subtasks[index]
    space = '' if subtask.kind is SubtaskKind.PRIMITIVE else \
        f', action space {subtask.action_space.value}'
    return (f'subtask {index + 1}: {subtask.name} ({subtask.kind.value}{space})\n'
            f'{subtask.code.rstrip()}')


def _api_text() -> str:
    lines = ['# Functions', 'For primitive subtasks:', *PRIMITIVE_API, 'For reward subtasks:',
             *REWARD_API]
    return '\n'.join(lines)
