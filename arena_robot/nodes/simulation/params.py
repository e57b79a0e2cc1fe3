"""The parameters of sim_station."""

from dataclasses import dataclass

from arena_robot.core.observation import EYES, ROLES
from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.robots.arms import ROBOTS


@dataclass(frozen=True, kw_only=True)
class SimParams(Parameters):
    """The parameters of sim_station."""

    task: str = param(
        'cube_in_bowl', 'scene to set up; ~/reset_scene reads it again', live=True)
    seed: int = param(
        0, 'variation of the scene; ~/reset_scene reads it again', 0, 2**31 - 1, live=True)
    robot_type: str = param('panda', 'which Franka', choices=tuple(sorted(ROBOTS)))
    image_width: int = param(512, 'width of every image', 16, 1280, unit='px')
    image_height: int = param(288, 'height of every image', 16, 720, unit='px')
    camera_rate: float = param(15.0, 'frames published', 1.0, 60.0, unit='Hz')
    cameras: tuple[str, ...] = param(ROLES, 'camera roles that exist', choices=ROLES)
    eyes: tuple[str, ...] = param(
        EYES, "eyes that are rendered; ['left'] saves half the time", choices=EYES)
    beauty: bool = param(False, 'shadows and smooth edges; slow')
    real_time_factor: float = param(
        1.0, 'simulated per real second; 0: as fast as possible', 0.0, 100.0)
    give_way: bool = param(
        True, 'with /clock: run slower while commands arrive late or steps see old pictures, as '
        'when the machine is too busy for real_time_factor')
    publish_clock: bool = param(
        False, 'publish /clock; needed when real_time_factor is not 1')
    clock_rate: float = param(
        125.0, 'messages on /clock, in simulated time', 1.0, 250.0, unit='Hz')
    restore_mm: float = param(
        0.0, 'position error (standard deviation) of ~/restore_start', 0.0, 100.0,
        unit='mm', live=True)
    restore_deg: float = param(
        0.0, 'angle error (standard deviation) of ~/restore_start', 0.0, 180.0, unit='deg',
        live=True)
    start_file: str = param(
        '', 'file that keeps the saved start, for a node that is started again; empty: none')
    progress_rate: float = param(10.0, 'messages on ~/progress', 0.1, 50.0, unit='Hz')
