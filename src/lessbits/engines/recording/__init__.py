"""What a run leaves behind: records, traces, checkpoints, logs and progress."""
