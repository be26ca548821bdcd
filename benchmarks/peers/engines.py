"""Runs of the two engines on the hosts of a slow internet, or on loopback; each returns the files of its notes."""

import json
import os
import sys
from pathlib import Path

from processes import Processes

HERE = Path(__file__).parent
PORT = 7443
# One host each, yet one machine: no shared memory, every message goes through the host's device.
TCP = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "site"}


def make_sites(folder, addresses, settings, run="benchmark"):
    """Make keys, certificates and a roster for a ring of sites, and return their files."""
    import tomli_w

    from lessbits.engines.peers.identity import make_identity
    from lessbits.engines.peers.site_file import write_site

    names = [f"site-{number}" for number in range(len(addresses))]
    (folder / "certificates").mkdir(parents=True)
    for name in names:
        certificate = make_identity(folder / name, name)
        (folder / "certificates" / f"{name}.pem").write_bytes(certificate.pem)
        write_site(folder / name / "site.toml", name, roster="../roster.toml")
    ends = range(len(names) if len(names) > 2 else 1)
    roster = {
        "format": "lessbits-roster-1",
        "run": run,
        "links": [[names[end], names[(end + 1) % len(names)]] for end in ends],
        "settings": settings,
        "sites": {name: {"address": address} for name, address in zip(names, addresses, strict=True)},
    }
    (folder / "roster.toml").write_text(tomli_w.dumps(roster))
    return [folder / name / "site.toml" for name in names]


def run_peers(space, task, folder, settings, every=2, seconds=600):
    """Run `lessbits peer run` at each host."""
    folder.mkdir(parents=True)
    rows, _ = task.write(folder)
    addresses = [f"{space.address(number)}:{PORT}" for number in range(len(rows))]
    shared = {"problem": task.kind, "regularization": task.regularization, **settings}
    sites = make_sites(folder, addresses, shared)
    files = [folder / f"notes-{number}.npz" for number in range(len(rows))]
    with Processes(folder / "log.txt") as processes:
        for number, site in enumerate(sites):
            worker = [sys.executable, HERE / "site_worker.py", files[number], every, site, "--data", rows[number]]
            processes.start([*space.inside(number), *worker, "--begin-after", "300"])
        processes.wait(seconds)
    return files


def practical_sizes(task, quantizer):
    """Return the step sizes that sites choose, with as many digits."""
    from lessbits import EdgeDual, Logistic, MethodRequest, Softmax, make_network, make_quantizer
    from lessbits.methods.gradients import Gradients

    features, labels = zip(*task.parts, strict=True)
    if task.kind == "softmax":
        problem = Softmax.from_parts(features, labels, task.classes, task.regularization)
    else:
        problem = Logistic.from_parts(features, labels, task.regularization)
    request = MethodRequest(
        problem.without_solution(),
        make_network("ring", len(task.parts)),
        make_quantizer(quantizer, problem.dim),
        Gradients("B", 1),
        practical=True,
    )
    method = EdgeDual.configure(request)
    return {name: float(f"{float(getattr(method, name)):.3g}") for name in method.step_size_names}


def run_ranks(space, task, folder, settings, every=2, seconds=600):
    """Run the MPI engine with one rank at each host."""
    from lessbits.engines.distributed.launch import find_mpiexec

    folder.mkdir(parents=True)
    _, rows = task.write(folder)
    given = {
        "kind": task.kind,
        "classes": task.classes,
        "regularization": task.regularization,
        "files": [str(file) for file in rows],
        "sizes": practical_sizes(task, settings["quantizer"]),
        **settings,
    }
    (folder / "task.json").write_text(json.dumps(given))
    worker = [sys.executable, HERE / "rank_worker.py", folder, every, folder / "task.json"]
    command = [find_mpiexec()]
    for number in range(len(rows)):
        command += [*([":"] if number else []), "-n", "1", *space.inside(number), *worker]
    with Processes(folder / "log.txt") as processes:
        processes.start(command, **TCP)
        processes.wait(seconds)
    return [folder / f"notes-{number}.npz" for number in range(len(rows))]


def free_processors():
    """Return the load of the machine, to be told with what was measured."""
    return os.getloadavg()[0]
