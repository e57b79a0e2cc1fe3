"""A Dask scheduler with workers, in a process of its own: prints its address, ends with stdin."""

import sys

import dask
from distributed import LocalCluster

if __name__ == '__main__':
    # Its workers would look a hundred times a second at what they do, also when that is nothing.
    dask.config.set({'distributed.worker.profile.enabled': False})
    with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True,
                      dashboard_address=None) as cluster:
        sys.stdout.write(cluster.scheduler_address.removeprefix('tcp://') + '\n')
        sys.stdout.flush()
        sys.stdin.read()
