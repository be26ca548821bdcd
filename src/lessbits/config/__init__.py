"""Settings, how a run is built from them, and the functions behind the commands."""
