"""How gRPC is set up: sizes, signs of life of connections, and how often it tries again."""

from lessbits.engines.peers.protocol import MOST_TEXT, PART_BYTES

MOST_FACTS = 2**20  # bytes
KEEPALIVE = 10_000  # milliseconds
HANDSHAKE = 10_000  # milliseconds
STREAMS_EACH = 3  # of one neighbour: one that goes on, and others that have died without a word
OPTIONS = (
    ("grpc.max_receive_message_length", max(MOST_TEXT, PART_BYTES + 1, MOST_FACTS)),
    ("grpc.max_send_message_length", max(MOST_TEXT, PART_BYTES + 1, MOST_FACTS)),
    ("grpc.max_metadata_size", 8192),
    ("grpc.keepalive_time_ms", KEEPALIVE),
    ("grpc.keepalive_timeout_ms", KEEPALIVE),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", KEEPALIVE // 2),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE),
    ("grpc.max_concurrent_streams", 2 * STREAMS_EACH),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
