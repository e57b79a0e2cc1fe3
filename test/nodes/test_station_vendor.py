"""Blind sessions over other packages' nodes: arm, gripper and cameras are fakes of theirs."""

from vendor_rig import VendorRig

from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'


def test_a_blind_session_over_crisp_and_zed_wrappers(processes, tmp_path):
    with VendorRig(processes, tmp_path, 'crisp.yaml', max_steps=60) as rig, rig.desk() as desk:
        end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
