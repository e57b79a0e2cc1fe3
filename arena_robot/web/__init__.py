"""Web pages: the evaluator's console and the site of an arena server."""
