"""Thin ROS shells around the rooms below."""

import os

# Seven joints need no threads of OpenBLAS, which spin while they wait for the next matrix.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
