"""From settings to a run, and what the commands do with settings."""
