"""
The ``arena`` command: one file per verb.

A verb module holds ``VERB`` (typed after ``arena``, such as ``'policy serve'``), ``HELP`` (one
line), ``add_arguments(parser)`` and ``run(args) -> int`` (the exit code). Heavy imports belong
inside ``run``. Exit codes: 0 done, 1 a check or the work failed, 2 wrong usage or input, 130
interrupted.
"""
