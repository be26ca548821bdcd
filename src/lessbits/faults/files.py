"""Files of faults: a TOML file with the fields of `Faults`, and events as a list of tables."""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from lessbits._internal.files import write_whole
from lessbits._internal.plain_values import plain
from lessbits.errors import InputError, check_kind, check_name, check_path, shown
from lessbits.faults.description import Event, Faults
from lessbits.faults.schedules import named_graphs
from lessbits.networks.network import Network

LARGEST_FILE = 2**26  # bytes


def read_faults(path: str | Path, network: Network | None = None) -> Faults:
    """Read a file of faults.

    Args:
        path: A TOML file whose entries are the fields of `Faults`. Its graphs may be lists of edges, files of edges, or
            a name: "matchings", "one-peer-exponential", or "base:2" for `base_graphs` with one neighbour.
        network: The network, for graphs that are given by name.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "faults.toml"
        >>> _ = file.write_text('''
        ... drop = 0.1
        ... events = [
        ...     {at = 100, what = "leave", node = 2},
        ...     {at = 200, what = "fail", link = [0, 1]},
        ...     {at = 300, what = "join", node = 2},
        ... ]
        ... ''')
        >>> read_faults(file)
        Faults(drop=0.1, 3 events)
    """
    file = check_path("the file of faults", path)
    try:
        values = tomllib.loads(_text(file, "the file of faults"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"the file of faults {file} is no TOML: {error}") from None
    graphs = values.get("graphs")
    if isinstance(graphs, str):
        if network is None:
            raise InputError(f"graphs in {file} is {shown(graphs)}, a schedule by name: give read_faults the network")
        check_kind("network", network, Network, "make one with lessbits.make_network")
        values["graphs"] = [list(map(list, edges)) for edges in named_graphs(graphs, network)]
    return faults_of(values, f"the file of faults {file}", file.parent)


def write_faults(faults: Faults, path: str | Path) -> None:
    """Write faults to a TOML file that `read_faults` reads.

    Args:
        faults: The faults.
        path: The file.

    Example:
        >>> import pathlib, tempfile
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "faults.toml"
        >>> write_faults(Faults(drop=0.1, delay=(1, 5)), file)
        >>> print(file.read_text(), read_faults(file) == Faults(drop=0.1, delay=(1, 5)))
        drop = 0.1
        delay = [
            1,
            5,
        ]
         True
    """
    import tomli_w

    check_kind("faults", faults, Faults, "make them with lessbits.Faults")
    write_whole(check_path("the file of faults", path), tomli_w.dumps(plain_faults(faults)))


def faults_of(values: Mapping[str, Any], where: str, folder: Path | None = None) -> Faults:
    """Return the faults that plain values describe, such as those of a TOML file.

    Graphs may be files of edges in the folder. Without a folder, as in a trace, no file is read.
    """
    for name in values:
        check_name(f"entry in {where}", name, [entry.name for entry in fields(Faults)])
    events = values.get("events", [])
    if not isinstance(events, list):
        raise InputError(f"events in {where} is {shown(events)}, but it must be a list of tables")
    graphs = values.get("graphs", [])
    if not isinstance(graphs, list):
        raise InputError(f"graphs in {where} is {shown(graphs)}, but it must be lists of edges, or files of them")
    known = {
        "link_delays": _link_delays(values.get("link_delays", []), where),
        "graphs": tuple(_graph(each, folder) for each in graphs),
        "events": tuple(_event(each, where) for each in events),
    }
    return Faults(**{**values, **known})


def _link_delays(given: Any, where: str) -> dict[tuple[Any, Any], Any]:
    """Return the delays of single links, which a file lists as tables."""
    try:
        if any(each.keys() != {"link", "delay"} for each in given):
            raise KeyError
        links = [tuple(each["link"]) for each in given]
        if len({frozenset(map(str, link)) for link in links}) < len(links):
            raise InputError(f"link_delays in {where} names a link twice: give each link one delay")
        return {link: each["delay"] for link, each in zip(links, given, strict=True)}
    except (AttributeError, TypeError, KeyError):
        raise InputError(
            f"link_delays in {where} is {shown(given)}, but it must be a list such as "
            '[{link = [0, 1], delay = "3-5"}]'
        ) from None


def _graph(given: Any, folder: Path | None) -> tuple[tuple[Any, Any], ...]:
    """Return the edges of a graph, which may be given as a file of them."""
    if isinstance(given, list):
        return tuple(tuple(edge) if isinstance(edge, list) else edge for edge in given)
    if not isinstance(given, str) or folder is None:
        return given  # which is refused
    file = folder / check_path("a file of edges", given)
    lines = _text(file, "the file of edges").splitlines()
    rows = [tuple(line.split()) for line in lines if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 2:
            raise InputError(f"the file of edges {file} has the line {shown(' '.join(row))}, but an edge has two nodes")
    return tuple((first, second) for first, second in rows)


def _text(file: Path, what: str) -> str:
    """Return the text of a file, of which no more is read than a schedule can have."""
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise InputError(f"{what} {file} has more than {LARGEST_FILE} bytes: that is no schedule")
        return content.decode("utf-8")
    except OSError as error:
        raise InputError(f"{what} {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{what} {file} is no text: {error}") from None


def plain_faults(faults: Faults) -> dict[str, Any]:
    """Return what differs from a network without faults, as values that `faults_of` reads and JSON can hold.

    >>> plain_faults(Faults(drop=0.1, delay=(1, 5), events=[Event(100, "leave", node=2)]))
    {'drop': 0.1, 'delay': [1, 5], 'events': [{'at': 100, 'what': 'leave', 'node': 2}]}
    """
    values = {
        **asdict(faults),
        "link_delays": [{"link": list(link), "delay": list(delay)} for link, delay in faults.link_delays.items()],
        "slow": {str(node): times for node, times in faults.slow.items()},
        "events": [_told(event) for event in faults.events],
    }
    default = asdict(Faults())
    return {name: plain(value) for name, value in values.items() if value != default[name] and value != []}


def _told(event: Event) -> dict[str, Any]:
    return {name: value for name, value in asdict(event).items() if value is not None}


def _event(given: Any, where: str) -> Event:
    if not isinstance(given, dict):
        raise InputError(
            f'an event in {where} is {shown(given)}, but it must be a table: {{at = 100, what = "leave", node = 2}}'
        )
    for name in given:
        check_name(f"entry of an event in {where}", name, [entry.name for entry in fields(Event)])
    for name in ("at", "what"):
        if name not in given:
            raise InputError(f'an event in {where} has no {name!r}: write {{at = 100, what = "leave", node = 2}}')
    link = given.get("link")
    return Event(**{**given, **({} if link is None else {"link": tuple(link) if isinstance(link, list) else link})})
