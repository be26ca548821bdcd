"""Records, traces, checkpoints, logs and progress of a run."""
