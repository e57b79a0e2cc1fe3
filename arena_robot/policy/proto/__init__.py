"""The wire format of policies, ``arena.policy.v1``; the ``_pb2`` files come from `make proto`."""
