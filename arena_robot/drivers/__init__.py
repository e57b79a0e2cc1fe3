"""One robot part per file, all behind the protocols of base.py."""
