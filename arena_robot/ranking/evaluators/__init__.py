"""What evaluators voted: reports, agreement, a fit that none can push far."""
