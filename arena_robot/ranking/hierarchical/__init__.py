"""One model of verdicts and progress, partially pooled over what differs."""
