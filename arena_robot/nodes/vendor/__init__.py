"""Robot parts behind the topics and actions of other packages' nodes."""
