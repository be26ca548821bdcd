"""The engine of peers: every site is one process that talks to its neighbours over gRPC with mutual TLS."""

import os

# gRPC writes lines of its own about every handshake that fails; `diagnosis` says what is wrong in a sentence. It must
# be set before gRPC is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
