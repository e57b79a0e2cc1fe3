"""Ratings of games: deviation ratings, Nash averaging, α-Rank."""
