"""
The server's data: one relational database, SQLite or PostgreSQL with the same code.

``Database`` opens, migrates and hands out transactions; each other file is one subject.
"""
