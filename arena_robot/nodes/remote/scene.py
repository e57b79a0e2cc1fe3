"""Client of sim_station: set up a scene, save it, read its progress."""

import threading
import uuid

from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from std_msgs.msg import Float64, String
from std_srvs.srv import Trigger

from arena_robot.core.errors import DriverError, NotConnected
from arena_robot.drivers.part import Opened
from arena_robot.nodes.lib import qos
from arena_robot.nodes.lib.calls import ServiceClients
from arena_robot.nodes.lib.listener import Listening
from arena_robot.nodes.lib.spin import Spin

CALL_S = 15.0    # setting up a scene compiles its model
SET = 'set_parameters_atomically'


class SceneClient(Opened):
    """
    Client of a ``sim_station``. Use it in a ``with`` block.

    ``patience_s`` is the timeout of finding it.
    """

    def __init__(self, name: str = 'sim_station', patience_s: float = 30.0) -> None:
        self._name = name
        self._patience_s = patience_s
        self._spin = Spin()
        self._progress = 0.0
        self._progressed = threading.Condition()
        self._count = 0
        self.instruction = ''

    def open(self) -> None:
        """Find the simulator; NotConnected when it does not answer in time."""
        self._spin.__enter__()
        node = Listening(f'scene_{uuid.uuid4().hex[:8]}', context=self._spin.context)
        self._services = ServiceClients(
            node, self._name, {'reset_scene': Trigger, 'save_start': Trigger,
                               SET: SetParametersAtomically}, find_s=CALL_S)
        qos.subscription(node, Float64, f'{self._name}/progress', self._on_progress, qos.STREAM)
        qos.subscription(node, String, f'{self._name}/instruction', self._on_instruction,
                         qos.LATCHED)
        self._spin.add(node, threads=2)
        with self._progressed:
            if not self._progressed.wait_for(lambda: self._count > 0, self._patience_s):
                self.close()
                raise NotConnected(f"no simulated station '{self._name}' answers; start one with "
                                   '`arena station --sim`, in the same ROS domain')

    def close(self) -> None:
        """Close ROS."""
        self._spin.close()

    def set_up(self, task: str, seed: int) -> str:
        """Set up the scene of a task and return its instruction. Raises DriverError."""
        request = SetParametersAtomically.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg()
            for name, value in (('task', task), ('seed', seed))])
        answer = self._services.call(SET, request, CALL_S)
        if not answer.result.successful:
            raise DriverError(f'{self._name}: {answer.result.reason}')
        return self._services.trigger('reset_scene', CALL_S)

    def keep(self) -> None:
        """Save the current scene as the start. Raises DriverError."""
        self._services.trigger('save_start', CALL_S)

    def progress(self) -> float:
        """Return the oracle's next progress message, 0 to 1. Raises DriverError."""
        with self._progressed:
            seen = self._count
            if not self._progressed.wait_for(lambda: self._count > seen, CALL_S):
                raise DriverError(f'{self._name} publishes no progress any more')
            return self._progress

    @property
    def last_progress(self) -> float:
        """Return the newest progress received, without waiting."""
        return self._progress

    def _on_progress(self, message: Float64) -> None:
        with self._progressed:
            self._progress = float(message.data)
            self._count += 1
            self._progressed.notify_all()

    def _on_instruction(self, message: String) -> None:
        self.instruction = str(message.data)
