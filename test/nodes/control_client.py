"""A client of follow_joint_trajectory with the real control_msgs: sends a goal, cancels it."""

import sys
import threading
import time

import rclpy
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from rclpy.node import Node
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectoryPoint

from arena_robot.robots.arms import PANDA, RESET_JOINTS


def wait(future, timeout_s=20.0):
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(timeout_s):
        raise SystemExit('no answer')
    return future.result()


def main(namespace):
    rclpy.init()
    node = Node('lab_client', namespace=namespace)
    speeds, moving, feedbacks = [], threading.Event(), []

    def heard(message):
        speeds.append((time.monotonic(), max(abs(v) for v in message.velocity)))
        if speeds[-1][1] > 0.2:
            moving.set()
    node.create_subscription(JointState, 'arm_node/measured_joint_states', heard, 10)
    client = ActionClient(node, FollowJointTrajectory, 'arm_node/follow_joint_trajectory')
    spinning = threading.Thread(target=rclpy.spin, args=(node,))
    spinning.start()
    try:
        sys.stdout.write(follow(client, moving, speeds, feedbacks))
    finally:
        rclpy.shutdown()
        spinning.join()


def follow(client, moving, speeds, feedbacks):
    """Send a goal, cancel it while the arm moves, and return what happened."""
    if not client.wait_for_server(20.0):
        raise SystemExit('no server')
    goal = FollowJointTrajectory.Goal()
    goal.trajectory.joint_names = PANDA.joint_names()
    end = [*RESET_JOINTS[:6], RESET_JOINTS[6] + 1.6]
    goal.trajectory.points = [
        JointTrajectoryPoint(positions=end, time_from_start=Duration(sec=3))]
    handle = wait(client.send_goal_async(goal, feedbacks.append))
    if not handle.accepted or not moving.wait(10.0):
        raise SystemExit('it does not move')
    asked_s = time.monotonic()
    wait(handle.cancel_goal_async())
    status = wait(handle.get_result_async()).status
    resting = threading.Event()
    while not resting.wait(0.01):
        if speeds[-1][1] < 0.02 and speeds[-1][0] > asked_s + 0.3:
            resting.set()
        if time.monotonic() > asked_s + 5.0:
            raise SystemExit('it does not come to rest')
    last_s = max(at_s for at_s, speed in speeds if speed > 0.02)
    return (f'canceled={status == GoalStatus.STATUS_CANCELED} feedback={len(feedbacks)} '
            f'rest_ms={1e3 * (last_s - asked_s):.0f}\n')


if __name__ == '__main__':
    main(sys.argv[1])
