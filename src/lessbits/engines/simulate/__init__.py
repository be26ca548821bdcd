"""All nodes in one process."""
