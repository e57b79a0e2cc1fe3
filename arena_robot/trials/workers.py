"""
Trials in several processes at once: one line of JSON in for each trial, one out for its outcome.

``python -m arena_robot.trials.workers`` is such a process.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict

from arena_robot.core.errors import ArenaError
from arena_robot.trials.trial import Course, Trial, TrialOutcome

STOP_S = 5.0

Tell = Callable[[int, TrialOutcome], None]


def run_all(trials: Sequence[Trial], jobs: int,
            tell: Tell = lambda done, outcome: None) -> list[TrialOutcome]:
    """
    Return the outcomes in the order of ``trials``, ``jobs`` of them at a time.

    ``tell`` hears of each one as it comes in. Raises what a trial raised; ArenaError when a
    process died.
    """
    found: dict[Trial, TrialOutcome] = {}
    if jobs > 1:
        with _Pool(trials, min(jobs, len(trials))) as pool:
            for _ in trials:
                _note(found, pool.next(), tell)
    else:
        course = Course()
        try:
            for trial in trials:
                _note(found, course.run(trial), tell)
        finally:
            course.close()
    return [found[trial] for trial in trials]


def _note(found: dict[Trial, TrialOutcome], outcome: TrialOutcome, tell: Tell) -> None:
    found[outcome.trial] = outcome
    tell(len(found), outcome)


class _Pool:
    """Processes that share a list of trials, each fed by a thread of its own."""

    def __init__(self, trials: Sequence[Trial], jobs: int) -> None:
        self._jobs = jobs
        self._due: queue.SimpleQueue[Trial] = queue.SimpleQueue()
        for trial in trials:
            self._due.put(trial)
        self._come: queue.SimpleQueue[TrialOutcome | ArenaError] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> '_Pool':
        environment = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
        for _ in range(self._jobs):
            process = subprocess.Popen(
                [sys.executable, '-m', __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                text=True, env=environment, start_new_session=True)
            self._processes.append(process)
            threading.Thread(target=self._feed, args=(process,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def next(self) -> TrialOutcome:
        """Return the next outcome that comes in."""
        come = self._come.get()
        if isinstance(come, ArenaError):
            raise come
        return come

    def _feed(self, process: 'subprocess.Popen[str]') -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while True:
                trial = self._due.get_nowait()
                process.stdin.write(json.dumps(asdict(trial)) + '\n')
                process.stdin.flush()
                reply = json.loads(process.stdout.readline())
                self._come.put(TrialOutcome(**reply | {'trial': trial}))
        except queue.Empty:
            return
        except (OSError, ValueError):
            self._come.put(ArenaError(f'the process that ran {trial.policy} on {trial.task}, seed '
                                      f'{trial.seed}, has died; what it said is above'))


def main() -> None:
    """Run the trials that come in on standard input until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())   # what a policy prints is no answer
    course = Course()
    for line in sys.stdin:
        print(json.dumps(asdict(course.run(Trial(**json.loads(line))))), file=answers, flush=True)
    course.close()


if __name__ == '__main__':
    main()
