"""
How fast the simulated station runs without ROS, and what it costs.

Every row drives the arm on a slow wave at 15 Hz, reads arm and gripper, and takes all images.
``x real`` is simulated time over wall time; ``cores`` is CPU time over wall time. The target is
6 x real time with three left images of 320x180.

The rows of the safety layer are its CPU time for one action of a random walk at full speed; with
a ``self_distance`` of 0 the links are not compared.

The last rows are 1000 random steps of Gymnasium environments without images, beside MuJoCo alone:
the same models, as many steps of physics, the last controls held. Both run one environment after
the other in this process. The target is 1.3 x MuJoCo's time.
"""

import time

import gymnasium
import mujoco
import numpy as np

from arena_robot.core.action import Action, ActionSpace, ArmCommand, GripperCommand
from arena_robot.core.clock import ManualClock
from arena_robot.core.errors import ConfigError
from arena_robot.core.observation import EYES, ROLES, ArmState
from arena_robot.drivers.sim.droid_gym import ID as GYM_ID
from arena_robot.drivers.sim.station import SimStation
from arena_robot.safety.filter import Safety
from arena_robot.safety.limits import limits_for, robot_of

SECONDS = 6.0
PHYSICS = (66, 67, 67)    # steps of 1 ms in three control steps
TASKS = ('cube_in_bowl', 'sort_cubes', 'find_cube', 'open_drawer')
VIEWS = ((), (320, 180), ('left',)), (ROLES, (320, 180), ('left',)), (ROLES, (512, 288), EYES), \
    (ROLES, (1280, 720), ('left',))


def drive(station: SimStation, steps: int) -> None:
    q = station.arm.state().q
    wave = 0.15 * np.array([1, 1, 1, 1, 1, 1, 1])
    for k in range(steps):
        station.arm.state()
        station.gripper.state()
        for camera in station.cameras.values():
            camera.frame()
        stamp_ns = station.clock.now_ns()
        station.arm.command(ArmCommand(q + wave * np.sin(k / 15), stamp_ns))
        station.gripper.command(GripperCommand(float(k // 15 % 2), stamp_ns))
        station.step(1 / 15)


def measure(task: str, cameras: tuple[str, ...], size: tuple[int, int],
            eyes: tuple[str, ...]) -> tuple[float, float, float]:
    with SimStation.make(task, 1, cameras=cameras, size=size, eyes=eyes) as station:
        drive(station, 15)
        wall, cpu = time.perf_counter(), time.process_time()
        drive(station, round(15 * SECONDS))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return SECONDS / wall, 1e3 * cpu / SECONDS, cpu / wall


def reset_time(task: str) -> float:
    with SimStation.make(task, cameras=()) as station:
        begun = time.process_time()
        for seed in range(5):
            station.reset(task, seed)
        return (time.process_time() - begun) / 5


def gymnasium_time(count: int = 8, steps: int = 1000) -> tuple[float, float]:
    """Return the CPU seconds of random steps of environments, and of their physics alone."""
    envs = [gymnasium.make(GYM_ID, disable_env_checker=True) for _ in range(count)]
    spent = alone = 0.0
    for seed, env in enumerate(envs):
        env.reset(seed=seed)
        env.action_space.seed(seed)
    for step in range(steps // count):
        for env in envs:
            action = env.action_space.sample()
            begun = time.process_time()
            *_, ended, cut, _ = env.step(action)
            spent += time.process_time() - begun
            world = env.unwrapped.station.world
            twin = mujoco.MjData(world.model)
            mujoco.mj_copyData(twin, world.model, world.data)
            begun = time.process_time()
            mujoco.mj_step(world.model, twin, PHYSICS[step % 3])
            alone += time.process_time() - begun
            if ended or cut:
                env.reset()
    for env in envs:
        env.close()
    return spent, alone


def filter_time(robot_type: str, self_distance: float, steps: int = 3000) -> str:
    """Return the CPU time of a command's check on a walk that turns at every 20th step."""
    limits = limits_for(robot_type, {'self_distance': self_distance})
    safety, rng, spent, cut = Safety(limits, ManualClock(0)), np.random.default_rng(0), [], 0
    rest = q = np.array(robot_of(robot_type).reset_joints)
    zero = np.zeros(len(q))
    for step in range(steps):
        if step % 20 == 0:
            q, way = rest if step % 200 == 0 else q, rng.uniform(-1.0, 1.0, len(q))
        action = Action(np.append(way, 0.0), ActionSpace.JOINT_VELOCITY)
        state = ArmState(stamp_ns=0, q=q, dq=zero, tau=zero, tau_ext=zero, pose=zero, q_desired=q)
        begun = time.thread_time()
        safe = safety.check(action, state)
        spent.append(1e3 * (time.thread_time() - begun))
        cut += any(clamp.reason.value == 'self_collision' for clamp in safe.clamps)
        q = safe.q
    p50, p99 = np.percentile(spent, [50, 99])
    return f'p50 {p50:.2f} ms, p99 {p99:.2f} ms, {100 * cut / steps:.0f} % of the steps cut'


def main() -> None:
    print(f"{'task':14} {'images':20} {'x real':>7} {'CPU ms per s':>13} {'cores':>6} "
          f"{'x real on one core':>19}")
    for task in TASKS:
        for cameras, size, eyes in VIEWS:
            images = f'{len(cameras) * len(eyes)} x {size[0]}x{size[1]}' if cameras else 'none'
            speed, cpu_ms, cores = measure(task, cameras, size, eyes)
            print(f'{task:14} {images:20} {speed:7.1f} {cpu_ms:13.1f} {cores:6.2f} '
                  f'{1e3 / cpu_ms:19.1f}', flush=True)
    print('\nreset to a new seed (CPU): '
          + ', '.join(f'{task} {1e3 * reset_time(task):.0f} ms' for task in TASKS))
    for robot_type in ('ur5', 'xarm7'):
        try:
            for distance in (0.0, 0.02):
                print(f'safety layer, {robot_type}, self_distance {distance:g} m: '
                      + filter_time(robot_type, distance), flush=True)
        except ConfigError as error:
            print(f'safety layer, {robot_type}: {error}')
    spent, alone = gymnasium_time()
    print(f'1000 random steps of 8 Gymnasium environments: {spent:.2f} s of CPU, MuJoCo alone '
          f'{alone:.2f} s: {spent / alone:.2f} x')


if __name__ == '__main__':
    main()
