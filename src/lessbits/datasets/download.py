"""The data sets available by name, the folders searched for their files, and the download."""

import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lessbits._internal.cache import cache_folder
from lessbits._internal.files import make_folder, put_in_place
from lessbits.errors import InputError, MissingDataError, check_name

if TYPE_CHECKING:
    import http.client

LIBSVM_PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"

# We tried pooch, and do not use it. Its downloader waits for whole chunks, so it bounds neither the time nor the size,
# and it leaves files that only their owner can read. With our own downloader below it, this file was 11 lines longer,
# and five more packages were needed.

# `timeout` bounds each wait. This bounds the whole download, in case a server sends its bytes very slowly.
LONGEST_DOWNLOAD_SECONDS = 600.0
CHUNK_BYTES = 1 << 16

# The file of a data set has its name, one of the plain suffixes, and optionally one of the compressed ones.
PLAIN_SUFFIXES = ("", ".libsvm", ".txt")
COMPRESSED_SUFFIXES = (".xz", ".bz2", ".gz")


@dataclass(frozen=True)
class CatalogueEntry:
    """A data set that can be downloaded by name; `size` and `sha256` are those of the uncompressed file."""

    name: str
    samples: int
    features: int
    size: int
    sha256: str


CATALOGUE = {
    entry.name: entry
    for entry in (
        CatalogueEntry("w1a", 2477, 300, 170263, "0ae2b1c40f6a99061d1c6f4a1f3b50eea58a2f3b8bf851a337c25c2a65a49d32"),
        CatalogueEntry("w8a", 49749, 300, 3478238, "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
        CatalogueEntry("a9a", 32561, 123, 2329875, "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        CatalogueEntry(
            "mushrooms", 8124, 112, 879712, "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"
        ),
    )
}


# Small real data sets that come with scikit-learn: our name, and the function in scikit-learn.
BUILT_IN = {
    "breast-cancer": "load_breast_cancer",
    "diabetes": "load_diabetes",
    "digits": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
}


def data_folder() -> Path:
    """Return the user's folder for downloaded data, in the cache folder."""
    return cache_folder() / "data"


def name_of_set(given: str) -> str:
    """Return the bare name of a data set: w1a for data/w1a.libsvm.xz."""
    name = os.path.basename(given)
    for suffix in (*COMPRESSED_SUFFIXES, *PLAIN_SUFFIXES):
        name = name.removesuffix(suffix) or name
    return name


def find_in_folders(name: str) -> Path | None:
    """Return the file of a data set in the folder `$LESSBITS_DATA` or in the cache; None if there is none."""
    chosen = os.environ.get("LESSBITS_DATA")
    folders = [Path(os.path.expanduser(chosen))] if chosen else []
    for folder in [*folders, data_folder()]:
        for plain in PLAIN_SUFFIXES:
            for compression in ("", *COMPRESSED_SUFFIXES):
                path = folder / f"{name}{plain}{compression}"
                if os.path.isfile(path):
                    return path
    return None


def advice_by_hand(name: str) -> str:
    """Return the part of a message that says where to put the file of a data set by hand."""
    return (
        f"put the file by hand into {str(data_folder())!r} as {name}.libsvm (or {name}.libsvm.xz, .bz2, .gz), "
        "or set LESSBITS_DATA to a folder that has it"
    )


def not_found(name: str) -> MissingDataError:
    """Return the error for a data set that is not found; it suggests the nearest available name."""
    if name in CATALOGUE:
        return MissingDataError(
            f"data set {name!r} is not on this machine and download is switched off: {advice_by_hand(name)}"
        )
    try:
        check_name("data set", name, sorted({*BUILT_IN, *CATALOGUE} - {name}))
    except InputError as error:
        unknown = error
    return MissingDataError(f"{unknown}; or give the path of a libsvm file, or {advice_by_hand('NAME')}")


def download_samples(
    entry: CatalogueEntry, folder: Path | None = None, base_url: str | None = None, timeout: float = 30.0
) -> Path:
    """Download a data set, check it, and return the path of the uncompressed file.

    The file appears in the folder complete and checked, or not at all.

    Args:
        entry: The data set.
        folder: Where to put the file; by default the cache.
        base_url: Where to download from; by default `$LESSBITS_DATA_URL`, or else the LIBSVM page.
        timeout: The longest wait for the server's next bytes, in seconds.
    """
    folder = data_folder() if folder is None else folder
    url = _address(entry, base_url)
    try:
        make_folder(folder)
        # The temporary folder is next to the target, so that the rename stays on one disk and is atomic.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as temporary:
            part = Path(temporary) / entry.name
            problem = _fetch(url, part, entry, timeout)
            if problem is None:
                file = folder / f"{entry.name}.libsvm"
                put_in_place(part, file)
                return file
    except OSError as error:
        problem = _reason(error)
    raise MissingDataError(f"cannot download {entry.name!r} from {url!r} ({problem}): {advice_by_hand(entry.name)}")


def _address(entry: CatalogueEntry, base_url: str | None) -> str:
    """Return the URL of a data set's file."""
    base = base_url or os.environ.get("LESSBITS_DATA_URL") or LIBSVM_PAGE
    if not base.startswith(("http://", "https://")):
        raise InputError(
            f"the address for data sets is {base!r}, but it must start with http:// or https://: "
            "set LESSBITS_DATA_URL right or unset it; for a folder use LESSBITS_DATA"
        )
    return f"{base.rstrip('/')}/{entry.name}"


def _fetch(url: str, part: Path, entry: CatalogueEntry, timeout: float) -> str | None:
    """Download `url` into the file `part`; return None if it has the expected content, else what is wrong."""
    # Imported here, because http and ssl are slow to import and only a download needs them.
    import http.client
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=timeout) as response, part.open("wb") as file:
            return _copy(response, file, entry)
    except urllib.error.HTTPError as error:
        error.close()  # it keeps the response open
        return f"the server answered {error.code} {error.reason}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        if isinstance(cause, TimeoutError):
            return f"the server was silent for {timeout:g} s"
        return _reason(cause)


def _copy(response: "http.client.HTTPResponse", file: BinaryIO, entry: CatalogueEntry) -> str | None:
    """Copy the response into the file; return None if it has the expected content, else what is wrong."""
    digest = hashlib.sha256()
    received = 0
    started = time.monotonic()
    # read1 returns the bytes available; read would wait for a full chunk and hide a slow server.
    while chunk := response.read1(CHUNK_BYTES):
        received += len(chunk)
        if received > entry.size:
            return f"the server sent more than the {entry.size} bytes expected"
        if time.monotonic() - started > LONGEST_DOWNLOAD_SECONDS:
            return f"only {received} of {entry.size} bytes came in {LONGEST_DOWNLOAD_SECONDS:g} s"
        digest.update(chunk)
        file.write(chunk)
    if received < entry.size:
        return f"the connection ended after {received} of {entry.size} bytes"
    if digest.hexdigest() != entry.sha256:
        return f"wrong checksum: sha256 is {digest.hexdigest()}, but {entry.sha256} was expected"
    return None


def _reason(error: object) -> str:
    """Return an error's text on one line."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())
