"""The simulator: all nodes in one process."""
