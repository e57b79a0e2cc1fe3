"""Reports on one policy whose claims and citations are checked against the sessions."""
