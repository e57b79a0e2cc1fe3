"""The ``arena`` command: ``verbs.py`` lists its verbs and says what a verb is."""
