"""Reference solutions, written from the goals of a task's oracle in RoboGen's Python."""

from arena_robot.skills.base import (
    SkillActionSpace,
    Solution,
    Subtask,
    SubtaskKind,
)
from arena_robot.skills.specs.tasks import JointGoal, LiftGoal, PlaceGoal, PressGoal, SkillTask

REFERENCE = 'reference'
STRICTER = 0.75     # of the oracle's tolerance
_JOINT = """\
def _compute_reward(self):
    eef_pos = get_eef_pos(self)[0]
    link_pos = get_link_state(self, "{thing}", "{link}")
    reward_near = -np.linalg.norm(eef_pos - link_pos)
    joint = get_joint_state(self, "{thing}", "{joint}")
    low, high = get_joint_limit(self, "{thing}", "{joint}")
    diff = np.abs(joint - (low + {target:g} * (high - low)))
    reward = reward_near - 5 * diff / (high - low)
    success = diff < {tolerance:g} * (high - low)
    return reward, success
"""
_LIFT = """\
def _compute_reward(self):
    height = get_position(self, "{thing}")[2]
    reward = -np.abs(height - {height:g})
    success = height > {height:g}
    return reward, success
"""
_PLACE = """\
def _compute_reward(self):
    at = get_position(self, "{thing}")
    goal = get_position(self, "{target}")
    distance = np.linalg.norm(at[:2] - goal[:2])
    reward = -distance - 0.5 * at[2]
    success = distance < {distance:g} and at[2] < 0.04
    return reward, success
"""


def grasp_step(thing: str, link: str = '') -> Subtask:
    """Return the subtask of grasping an object, or a link of it."""
    if link:
        call, name = f'grasp_object_link(self, "{thing}", "{link}")', f'grasp the {link}'
        check = f'check_grasped(self, "{thing}", "{link}")'
    else:
        call, name = f'grasp_object(self, "{thing}")', f'grasp the {thing}'
        check = f'check_grasped(self, "{thing}")'
    return Subtask(name, SubtaskKind.PRIMITIVE,
                   f'rgbs, final_state = {call}\nsuccess = {check}\n')


def release_step(thing: str) -> Subtask:
    """Return the subtask of letting go."""
    return Subtask('release the grasp', SubtaskKind.PRIMITIVE,
                   'rgbs, final_state = release_grasp(self)\n'
                   f'success = not check_grasped(self, "{thing}")\n')


def reward_step(name: str, code: str) -> Subtask:
    """Return a reward subtask."""
    return Subtask(name, SubtaskKind.REWARD, code, SkillActionSpace.TRANSLATION)


def joint_step(thing: str, joint: str, link: str, target: float, tolerance: float) -> Subtask:
    """Return the subtask of moving a joint to ``target``, a share of its range."""
    code = _JOINT.format(thing=thing, joint=joint, link=link, target=target, tolerance=tolerance)
    return reward_step(f'move the {link} until the joint {joint} is at {target:.0%}', code)


def reference_solution(task: SkillTask) -> Solution:
    """Return a solution that should succeed."""
    steps: list[Subtask] = []
    for goal in task.goals:
        if isinstance(goal, PlaceGoal):
            place = _PLACE.format(thing=goal.object, target=goal.target,
                                  distance=STRICTER * goal.distance_m)
            steps += [grasp_step(goal.object), reward_step(f'move it to {goal.target}', place),
                      release_step(goal.object)]
        elif isinstance(goal, LiftGoal):
            lift = _LIFT.format(thing=goal.object, height=0.022 + 1.3 * goal.height_m)
            steps += [grasp_step(goal.object), reward_step('lift it', lift)]
        else:
            steps += _of_joint(task, goal)
    scene = {'objects': [thing.name for thing in task.spec.objects],
             'joints': dict(task.spec.initial)}
    return Solution(task.spec.name, scene, tuple(steps), REFERENCE)


def _of_joint(task: SkillTask, goal: JointGoal | PressGoal) -> list[Subtask]:
    link = task.held[f'{goal.object}/{goal.joint}']
    target = goal.target if isinstance(goal, JointGoal) else 0.0
    move = joint_step(goal.object, goal.joint, link, target, STRICTER * goal.tolerance)
    if not task.grasps:
        return [move]
    return [grasp_step(goal.object, link), move, release_step(goal.object)]
