"""Algorithm 1, and how its nodes talk."""
