"""A judge whose audits carry a word that is found wherever something of them is shown."""

import numpy as np

from arena_robot.audit.base import Capabilities, trace_of

WORD = 'wombat-9b'


class LoudJudge:
    """Says that every rollout got halfway."""

    name, capabilities = 'loud_judge', Capabilities(interval_s=0.5)

    def progress(self, clip):
        return trace_of(clip, np.linspace(0.0, 0.5, len(clip)), WORD, detail=WORD)

    def compare(self, pair):
        return None
