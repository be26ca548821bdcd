"""The live page of a site: one local page that shows the run as it goes, for `lessbits peer run --live`.

It is served to this machine only, at 127.0.0.1. A browser also runs other people's pages, so requests that one of
those could make are refused: a `Host` that is another name (DNS rebinding), an `Origin` that is another page, and every
method except GET. The page may run its own script and no other, loads nothing from elsewhere, and asks for nothing but
its events. It shows how the run goes: names of sites, counts and errors, no data and no keys.
"""

import base64
import hashlib
import re
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from lessbits._internal.logging import logger
from lessbits.engines.peers.live_samples import SECONDS, Samples
from lessbits.errors import InputError, check_whole

HOST = "127.0.0.1"
OWN_NAMES = (HOST, "localhost")  # with any port: it may be forwarded from another machine
MOST_LISTENERS = 8  # pages that are open at a time
MOST_CONNECTIONS = 24  # of all kinds; each has a thread
SILENT_SECONDS = 10.0  # after which a connection that sends or takes nothing is closed
RETRY_MILLISECONDS = 1000  # until a page that has lost its connection tries again


class LivePage:
    """Serves the page at `address` until `close`, from threads of its own.

    Args:
        snapshot: Returns how the site stands, as values that JSON can hold. It is called from another thread.
        port: Where to serve, from 0 to 65535; 0 takes any free port.
    """

    def __init__(self, snapshot: Callable[[], Mapping[str, Any]], port: int = 0) -> None:
        check_whole("the port of the live page", port, 0, 65535)
        try:
            self.server = _Server(port)
        except OSError as error:
            raise InputError(
                f"the live page cannot be served at {HOST}:{port} ({error.strerror or error}): "
                "take another port, or 0 for any free one"
            ) from None
        self.server.samples = Samples(snapshot)
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.1}, name="lessbits-live", daemon=True
        )
        self.thread.start()

    @property
    def port(self) -> int:
        """The port, also if any free one was taken."""
        return self.server.server_address[1]

    @property
    def address(self) -> str:
        """The address of the page, for a browser on this machine."""
        return f"http://{HOST}:{self.port}/"

    def close(self) -> None:
        """Tell open pages that the site has ended, and end all threads."""
        self.server.samples.close()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
        self.server.end_connections()


class _Server(ThreadingHTTPServer):
    """The server, with a bounded number of connections that it can end."""

    allow_reuse_port = False  # a port that is taken must be refused
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS
    samples: Samples

    def __init__(self, port: int) -> None:
        self.listeners = threading.BoundedSemaphore(MOST_LISTENERS)
        self.connections: dict[threading.Thread, socket.socket] = {}
        self.guard = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking for the name of this machine, which can take long where there is no network."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there are not too many."""
        with self.guard:
            if len(self.connections) >= MOST_CONNECTIONS:
                self.shutdown_request(request)
                return
            thread = threading.Thread(
                target=self.process_request_thread,
                args=(request, client_address),
                name="lessbits-live-connection",
                daemon=True,
            )
            self.connections[thread] = request
        thread.start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and forget it."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.guard:
                self.connections.pop(threading.current_thread(), None)

    def end_connections(self) -> None:
        """Let pages take their last event, then break what is left, and wait until all threads have ended."""
        for patience in (1.0, None):
            with self.guard:
                left = dict(self.connections)
            for thread, connection in left.items():
                if patience is None:
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)
                thread.join(patience)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log at the lowest level: browsers leave in the middle of an answer, which is nobody's mistake."""
        logger.debug("a connection to the live page broke", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """Answers one request: the page, or its events."""

    server: _Server
    timeout = SILENT_SECONDS
    server_version, sys_version = "lessbits", ""

    def do_GET(self) -> None:
        """Answer with the page or with events."""
        if not self._is_from_here():
            self._answer(403, b"This page is for browsers on this machine, at 127.0.0.1 or localhost.\n")
        elif self.path == "/":
            self._answer(200, _page()[0], "text/html; charset=utf-8")
        elif self.path == "/events":
            self._stream()
        else:
            self._answer(404, b"There is one page only, at /\n")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse another method or a request that is malformed, without repeating any of it."""
        refused = code == 501  # http.server's number for a method that it does not find
        self._answer(405 if refused else code, b"Only GET is answered here.\n" if refused else b"Refused.\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: standard error is for the run."""

    def _is_from_here(self) -> bool:
        """Return whether a page of this server, or a person on this machine, can have asked."""
        hosts, origin = self.headers.get_all("Host", []), self.headers.get("Origin")
        if len(hosts) != 1 or hosts[0].rsplit(":", 1)[0].lower() not in OWN_NAMES:
            return False
        same_site = self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        # A link on another page may lead here; the browser then shows this page, and the other one sees nothing of it.
        followed = self.path == "/" and self.headers.get("Sec-Fetch-Mode") == "navigate"
        return (same_site or followed) and (origin is None or urlsplit(origin).netloc.lower() == hosts[0].lower())

    def _stream(self) -> None:
        """Send the history, then every new snapshot, and comments while nothing changes."""
        if not self.server.listeners.acquire(blocking=False):
            self._answer(503, b"Too many pages of this site are open: close one.\n")
            return
        try:
            self._start(200, "text/event-stream")
            samples = self.server.samples
            number, history = samples.history()
            self._send(f"retry: {RETRY_MILLISECONDS}\nevent: history\ndata: {history}\n\n")
            while True:
                ending = samples.closing.is_set()  # read before the snapshot, so that the last one is sent too
                number, text = samples.wait_beyond(number, SECONDS)
                if text is not None:
                    self._send(f"data: {text}\n\n")
                elif ending:
                    self._send("event: end\ndata: {}\n\n")
                    return
                else:
                    self._send(": nothing has changed\n\n")
        except OSError:
            pass  # the page was closed, or does not read
        finally:
            self.server.listeners.release()

    def _send(self, text: str) -> None:
        self.wfile.write(text.encode())

    def _answer(self, status: int, content: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        with suppress(OSError):  # who asked has left
            self._start(status, kind, len(content))
            self.wfile.write(content)

    def _start(self, status: int, kind: str, length: int | None = None) -> None:
        self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", _page()[1])
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        if status == 405:
            self.send_header("Allow", "GET")
        self.end_headers()


@cache
def _page() -> tuple[bytes, str]:
    """Return the page, and the policy that lets it run its own script only and load nothing from elsewhere."""
    text = files("lessbits.engines.peers").joinpath("live.html").read_text("utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; "
        "style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy
