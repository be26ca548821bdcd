import contextlib
import hashlib
import lzma
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lessbits._internal.cache import cache_folder
from lessbits._internal.programs import programs_folder
from lessbits.datasets import download, load_samples
from lessbits.datasets.download import CATALOGUE, CatalogueEntry, data_folder, download_samples
from lessbits.errors import InputError, MissingDataError

SHARED = Path(__file__).parents[3] / "shared" / "data"
CONTENT = b"".join(b"%d %d:1\n" % (index % 2, index % 5 + 1) for index in range(50_000))
ENTRY = CatalogueEntry("toy", 50_000, 8, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test sees the user's own data, writes to the user's cache, or reaches past this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LESSBITS_DATA_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("LESSBITS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve() -> Iterator[Callable[[Answer], str]]:
    """Start a server whose every answer is made by a function; gives its address."""
    servers = []

    def start(answer: Answer) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_port}/sets"

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def send(body: bytes, length: int | None = None) -> Answer:
    """Answer with this body, announcing `length` bytes (the truth unless given)."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        with contextlib.suppress(ConnectionError):  # The client may have seen enough.
            handler.wfile.write(body)

    return answer


def failure(**options) -> str:
    """Download what must fail; nothing may be left behind. Returns the message."""
    with pytest.raises(MissingDataError) as caught:
        download_samples(ENTRY, **options)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert message.startswith("cannot download 'toy' from 'http")
    assert "toy.libsvm" in message
    assert str(data_folder()) in message
    assert "LESSBITS_DATA" in message
    assert not data_folder().is_dir() or not list(data_folder().iterdir())
    return message


def test_a_good_download_lies_in_the_cache_alone(serve):
    asked = []

    def answer(handler):
        asked.append(handler.path)
        send(CONTENT)(handler)

    path = download_samples(ENTRY, base_url=serve(answer))
    assert asked == ["/sets/toy"]
    assert path.read_bytes() == CONTENT
    assert list(data_folder().iterdir()) == [path]
    assert path == data_folder() / "toy.libsvm"


def test_the_folder_can_be_chosen_and_a_second_download_replaces_the_file(serve, tmp_path):
    target = tmp_path / "elsewhere" / "toy.libsvm"
    target.parent.mkdir()
    target.write_bytes(b"old")
    assert download_samples(ENTRY, folder=target.parent, base_url=serve(send(CONTENT)) + "/") == target
    assert target.read_bytes() == CONTENT


def test_load_samples_downloads_once_and_then_needs_no_server(serve, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "toy", ENTRY)
    monkeypatch.setenv("LESSBITS_DATA_URL", serve(send(CONTENT)))
    first = load_samples("toy")
    assert (first.count, first.dim, first.name) == (50_000, 8, "toy")
    monkeypatch.setenv("LESSBITS_DATA_URL", "http://127.0.0.1:9/")
    assert (load_samples("toy").features != first.features).nnz == 0


@pytest.mark.parametrize("name", ["w1a", "w8a", "a9a", "mushrooms"])
def test_the_catalogue_describes_the_real_files(serve, name):
    source = SHARED / f"{name}.libsvm.xz"
    if not source.is_file():
        pytest.skip(f"the LIBSVM data sets are not in {SHARED}")
    content = lzma.decompress(source.read_bytes())
    path = download_samples(CATALOGUE[name], base_url=serve(send(content)))
    samples = load_samples(path)
    assert (samples.count, samples.dim) == (CATALOGUE[name].samples, CATALOGUE[name].features)


def test_the_catalogue_is_on_the_libsvm_page():
    assert download.LIBSVM_PAGE == "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
    assert {entry.name: entry.features for entry in CATALOGUE.values()} == {
        "w1a": 300,
        "w8a": 300,
        "a9a": 123,
        "mushrooms": 112,
    }


def test_a_wrong_checksum(serve):
    changed = CONTENT[:-2] + b"2\n"
    assert "wrong checksum" in failure(base_url=serve(send(changed)))


@pytest.mark.parametrize("announced", [None, len(CONTENT)])
def test_a_body_that_is_cut(serve, announced):
    url = serve(send(CONTENT[:1000], announced))
    assert f"ended after 1000 of {len(CONTENT)} bytes" in failure(base_url=url)


def test_a_chunked_body_that_is_cut(serve):
    def answer(handler):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"FFF\r\nabc")
        handler.close_connection = True

    failure(base_url=serve(answer))


def test_an_oversized_body_is_not_read_to_its_end(serve):
    assert "more than the" in failure(base_url=serve(send(CONTENT * 20)))


def test_an_error_page(serve):
    url = serve(lambda handler: handler.send_error(404))
    assert "the server answered 404 Not Found" in failure(base_url=url)


def test_no_server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # Bound and not listening: nobody else takes the port meanwhile.
        message = failure(base_url=f"http://127.0.0.1:{free.getsockname()[1]}/")
    assert "Connection refused" in message


@pytest.mark.parametrize("before", [b"", b"HTTP/1.0 200 OK\r\n\r\n1 1:1\n"])
def test_a_server_that_stalls(serve, before):
    done = threading.Event()

    def answer(handler):
        handler.wfile.write(before)
        handler.wfile.flush()
        done.wait()

    url = serve(answer)
    try:
        assert "silent for 0.2 s" in failure(base_url=url, timeout=0.2)
    finally:
        done.set()


def test_a_server_that_trickles(serve, monkeypatch):
    monkeypatch.setattr(download, "LONGEST_DOWNLOAD_SECONDS", 0.2)
    done = threading.Event()

    def answer(handler):
        handler.send_response(200)
        handler.end_headers()
        while not done.wait(0.02):
            try:
                handler.wfile.write(b"1")
            except ConnectionError:
                break

    url = serve(answer)
    try:  # the body has no end: who waits for it hangs
        assert re.search(r"only \d+ of \d+ bytes came in 0.2 s", failure(base_url=url))
    finally:
        done.set()


def test_an_answer_that_is_not_http(serve):
    failure(base_url=serve(lambda handler: handler.wfile.write(b"\0\1\2 spam\n\n")))


def test_an_address_that_is_none(monkeypatch):
    assert "cannot download" in failure(base_url="http://[bad/")
    assert "cannot download" in failure(base_url="http://127.0.0.1:port/")
    monkeypatch.setenv("LESSBITS_DATA_URL", "/some/folder")
    with pytest.raises(InputError, match="must start with http") as caught:
        download_samples(ENTRY)
    assert "'/some/folder'" in str(caught.value)


def test_a_cache_that_cannot_be_written(serve, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(MissingDataError, match="cannot download") as caught:
        download_samples(ENTRY, folder=blocked / "data", base_url=serve(send(CONTENT)))
    assert "\n" not in str(caught.value)


def test_load_samples_says_what_to_do_without_network():
    with pytest.raises(MissingDataError, match="LESSBITS_DATA") as caught:
        load_samples("w1a")
    assert "'http://127.0.0.1:9/w1a'" in str(caught.value)
    assert "w1a.libsvm" in str(caught.value)


def test_the_cache_folder_follows_the_environment(tmp_path, monkeypatch):
    assert data_folder() == tmp_path / "lessbits" / "data"
    monkeypatch.setenv("HOME", "/home/someone")
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert data_folder() == Path("/home/someone/.cache/lessbits/data")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == Path("/home/someone/.cache/lessbits/data")
    assert programs_folder().parent == cache_folder() == data_folder().parent  # one folder for all that is kept
