"""ROS nodes, a file or a folder per node."""

import os

# Small arrays need no BLAS or OpenMP threads, which use processor time while they wait.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
os.environ.setdefault('OPENCV_FOR_THREADS_NUM', '1')
