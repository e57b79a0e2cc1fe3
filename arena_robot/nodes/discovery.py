"""The range of ROS discovery: this machine only, unless the environment sets another."""

import os

RANGE = 'ROS_AUTOMATIC_DISCOVERY_RANGE'
# Whoever sets one of these has chosen the range.
CHOSEN = (RANGE, 'ROS_STATIC_PEERS', 'ROS_DISCOVERY_SERVER', 'ROS_LOCALHOST_ONLY')
LOCAL = 'LOCALHOST'
SAID = (f'ROS hears this machine only; when parts of the station run on other machines, set '
        f'{RANGE}=SUBNET for all of them')


def stay_local() -> str:
    """Limit discovery to this machine; return a sentence about it, '' where a range was chosen."""
    if any(name in os.environ for name in CHOSEN):
        return ''
    os.environ[RANGE] = LOCAL
    return SAID
