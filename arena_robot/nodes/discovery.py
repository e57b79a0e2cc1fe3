"""Whom ROS hears: this machine only, unless the environment says otherwise."""

import os

RANGE = 'ROS_AUTOMATIC_DISCOVERY_RANGE'
# Who sets one of these has chosen whom to hear.
CHOSEN = (RANGE, 'ROS_STATIC_PEERS', 'ROS_DISCOVERY_SERVER', 'ROS_LOCALHOST_ONLY')
LOCAL = 'LOCALHOST'
SAID = (f'ROS hears this machine only; when parts of the station run on other machines, set '
        f'{RANGE}=SUBNET for all of them')


def stay_local() -> str:
    """Let ROS hear this machine only; return a sentence about it, '' where one has chosen."""
    if any(name in os.environ for name in CHOSEN):
        return ''
    os.environ[RANGE] = LOCAL
    return SAID
