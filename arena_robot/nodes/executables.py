"""The executables of `ros2 run arena_robot ...`, one per node, and the modules they run."""

MODULES = {
    'arm_node': 'arena_robot.nodes.arm.node',
    'audit_node': 'arena_robot.nodes.audit',
    'camera_node': 'arena_robot.nodes.camera',
    'gripper_node': 'arena_robot.nodes.gripper',
    'ranking_node': 'arena_robot.nodes.ranking',
    'recorder_node': 'arena_robot.nodes.recorder.node',
    'replay_node': 'arena_robot.nodes.replay',
    'session_node': 'arena_robot.nodes.session.node',
    'sim_station': 'arena_robot.nodes.simulation.node',
}
