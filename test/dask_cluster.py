"""A Dask scheduler with workers, in a process of its own: prints its address, ends with stdin."""

import sys

from distributed import LocalCluster

if __name__ == '__main__':
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True,
                      dashboard_address=None) as cluster:
        sys.stdout.write(cluster.scheduler_address.removeprefix('tcp://') + '\n')
        sys.stdout.flush()
        sys.stdin.read()
