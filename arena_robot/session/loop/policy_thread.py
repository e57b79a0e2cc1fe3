"""A policy is asked on a thread of its own, so that a stop never waits for an answer."""

import logging
import queue
import threading

from arena_robot.core.errors import PolicyTimeout
from arena_robot.core.observation import Observation
from arena_robot.policy.chunks import ChunkExecutor, ChunkStep

log = logging.getLogger(__name__)

FORGET_TIMEOUT_S = 2.0


class PolicyThread:
    """Asks one policy about one episode; a policy that hangs is left behind, not waited for."""

    def __init__(self, executor: ChunkExecutor, episode: str) -> None:
        self._executor = executor
        self._episode = episode
        self._questions: queue.SimpleQueue[Observation | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[ChunkStep | Exception | None] = queue.SimpleQueue()
        self._forgotten = threading.Event()

    def open(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._work, name='policy', daemon=True).start()

    def ask(self, observation: Observation, timeout_s: float) -> ChunkStep | None:
        """
        Return this control step's action, or None after :meth:`cancel`.

        Waits only when the policy has to be asked. Raises PolicyTimeout after ``timeout_s``, and
        what the policy raised.
        """
        if not self._executor.due(self._episode):
            return self._executor.step(observation, self._episode)
        self._questions.put(observation)
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise PolicyTimeout('the policy did not answer in time') from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def cancel(self) -> None:
        """Let go of a pending question."""
        self._answers.put(None)

    def forget(self) -> None:
        """Tell the policy to forget the episode; waits for that no longer than two seconds."""
        self._questions.put(None)
        if not self._forgotten.wait(FORGET_TIMEOUT_S):
            log.warning('a policy is still busy after its episode; it is left behind')

    def _work(self) -> None:
        while (observation := self._questions.get()) is not None:
            try:
                self._answers.put(self._executor.step(observation, self._episode))
            except Exception as error:  # handed to the loop, which ends the episode with it
                self._answers.put(error)
        try:
            self._executor.reset(self._episode)
            self._executor.close()
        except Exception:  # its words could name the policy
            log.warning('a policy did not forget its episode')
        finally:
            self._forgotten.set()
