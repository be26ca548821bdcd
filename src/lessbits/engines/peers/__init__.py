"""The engine of peers: every site is one process that talks to its neighbours over gRPC with mutual TLS."""
