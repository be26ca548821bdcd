"""Studies: what the commands do with a problem and a network, for any problem in Python too."""
