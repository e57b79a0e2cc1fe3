"""
A blind session in which nodes of other packages provide arm, gripper and cameras.

    python bench/bench_vendor.py                  # CRISP, the gripper's position controller
    python bench/bench_vendor.py jtc              # Jazzy's joint_trajectory_controller instead
    python bench/bench_vendor.py franka_ros2_zed  # needs control_msgs (ROS 2, or ARENA_ROS_TOOLS)
    python bench/bench_vendor.py droid_nuc        # arm and gripper behind an emulated NUC
    python bench/bench_vendor.py droid_nuc_slow   # a NUC that takes 8 ms for a state of the arm

The vendors' nodes are those of the tests, written from the vendors' documentation, over the
simulated station in one process. Measured from the recorded episodes: the control loop's rate, and
how old the pictures were that the steps used. Run it on a quiet machine.
"""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'test'), str(ROOT / 'test' / 'nodes')]
os.environ.setdefault('ROS_DOMAIN_ID', '87')
os.environ.setdefault('ROS_AUTOMATIC_DISCOVERY_RANGE', 'LOCALHOST')
os.environ.setdefault('MUJOCO_GL', 'egl')

import numpy as np  # noqa: E402
from ros_tools import environment, missing  # noqa: E402
from station_programs import Process  # noqa: E402
from test_station_vendor import FRANKA, JTC_LAB, ROS, TASK  # noqa: E402
from vendor_rig import VendorRig  # noqa: E402

from arena_robot.recording.bag.codec import Codec  # noqa: E402
from arena_robot.recording.bag.reader import BagReader  # noqa: E402
from arena_robot.recording.episode.tracks import load_tracks  # noqa: E402
from arena_robot.session.evaluator.scripted import Script, Scripted  # noqa: E402

STEPS = 300
NUC = ('-m', 'arena_robot.cli.main', 'emulate', 'droid-nuc')
LABS = {'crisp': {}, 'jtc': JTC_LAB, 'franka_ros2_zed': {'lab': FRANKA},
        'droid_nuc': {'program': NUC},
        'droid_nuc_slow': {'program': (*NUC, '--arm-read', '0.008'), 'config': 'droid_nuc.yaml'}}
RATE_HZ, AGE_P99_S = 14.8, 0.1


def measured(folder):
    """Return rate (Hz) and picture ages (s) at the steps of an episode."""
    with BagReader(folder) as bag:
        steps = load_tracks(bag, Codec()).steps
    stamps = np.asarray(steps.stamps)
    used = np.where(steps.image_stamps > 0, steps.image_stamps, stamps[:, None])
    rate_hz = (len(stamps) - 1) / ((stamps[-1] - stamps[0]) * 1e-9)
    return rate_hz, (stamps[:, None] - used).ravel() * 1e-9


def main():
    name = sys.argv[1] if len(sys.argv) > 1 else 'crisp'
    lab, ros, good = LABS[name], {}, True
    if lab.get('lab') == FRANKA:
        if missing():
            raise SystemExit(missing())
        ros = {key: value for key, value in environment().items() if key in ROS}
    with tempfile.TemporaryDirectory() as folder:
        options = {'config': f'{name}.yaml', 'max_steps': STEPS, 'environment': ros, **lab}
        with VendorRig(Process, Path(folder), **options) as rig, rig.desk() as desk:
            end = Scripted(desk, Script('bench', TASK, lambda: 0.5)).run()
        print(f'{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}; '
              f'{end.state.value}, verified: {end.verified}')
        for slot in 'AB':
            rate_hz, ages = measured(rig.data / 'sessions' / end.session_id / slot)
            p50, p99 = np.percentile(ages, (50, 99))
            held = rate_hz >= RATE_HZ and p99 <= AGE_P99_S
            good &= held
            print(f'  {slot}: {rate_hz:5.2f} Hz (wanted {RATE_HZ})  picture age p50 '
                  f'{1e3 * p50:3.0f} p99 {1e3 * p99:3.0f} ms (wanted {1e3 * AGE_P99_S:.0f})  '
                  f'{"" if held else "MISSED"}')
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
