"""What carries messages and records runs."""
