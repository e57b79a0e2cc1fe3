"""One judged session: its pair, its rollouts, its verdict, and whether it counts."""
