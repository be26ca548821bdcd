"""Engines that run methods and record the runs: a simulator, and real processes."""
