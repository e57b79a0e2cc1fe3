"""Thin ROS shells around the rooms below."""

import os

# Seven joints and small pictures need no helper threads, which spin while they wait for work.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
os.environ.setdefault('OPENCV_FOR_THREADS_NUM', '1')
