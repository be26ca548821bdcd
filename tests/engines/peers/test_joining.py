"""Sites that join a run that is under way, and sites in a training loop of one's own."""

import asyncio
import re
import socket
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from engines.peers.in_process import DIM, PATIENCE, Town, known_identity, run_all, until
from engines.peers.made_sites import identity, replace_file

from lessbits import EdgeDual, Gradients, LeastSquares, Node, make_quantizer
from lessbits.engines.peers.checkpoint import SiteCheckpoints, standing
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.program import SiteNode
from lessbits.engines.peers.replay import replay
from lessbits.engines.peers.result import run_mark
from lessbits.engines.peers.run import SiteRun
from lessbits.engines.peers.schedule import Schedule
from lessbits.engines.peers.site import Site
from lessbits.engines.peers.site_file import write_site
from lessbits.errors import InputError

METHOD = EdgeDual(0.2, 1.0, 0.9, 1.3, make_quantizer("dit-4", DIM))
NAMES = ("berlin", "paris", "rome")


def site_run(town, name, problem, number, schedules=None, **options):
    roster, settled = town.roster, SiteOptions(**{"linger": 30.0, "patience": 60.0, **options})
    own = problem.restrict(np.array([number]))
    node = SiteNode(own, METHOD, roster.network(), roster.number(name), roster.link_ids(), 3)
    schedule = None if schedules is None else Schedule(name, schedules / f"{name}.jsonl")
    site = Site(town.member(name), node, settled, float(problem.convexity), schedule)
    return SiteRun(site, run_mark(METHOD, 3, "entropy", None, settled), f"127.0.0.1:{town.ports[name]}")


def add_oslo(town, neighbour):
    """Add a site that dials to the roster."""
    oslo = known_identity("oslo")
    town.identities["oslo"], town.names = oslo, (*town.names, "oslo")
    town.links = [*town.links, ("oslo", neighbour)]
    (town.folder / "certificates" / "oslo.pem").write_bytes(oslo.pem)
    town.ports["oslo"] = 1  # where nobody listens
    town.file.write_text(town.text({**town.ports, "oslo": None}) + "added = true\n")


@pytest.mark.slow
def test_a_site_is_added_while_the_others_run(tmp_path):
    """Its neighbours get a link more and go on; it converges with them to the optimum of all."""
    town = Town(tmp_path)
    problem = LeastSquares.random(4, DIM, 8, 5.0, 1)
    options = {"iterations": 100_000, "until": 1e-12}
    runs = [site_run(town, name, problem, number, **options) for number, name in enumerate(NAMES)]
    for run in runs:
        run.site.convexity = 1e-20  # nobody stops before the new one is there

    async def add():
        await until(lambda: runs[0].site.iteration > 20)
        add_oslo(town, "rome")
        newcomer = site_run(town, "oslo", problem, 3, **options)
        newcomer.listen = None
        ended = asyncio.ensure_future(newcomer.run())
        await until(lambda: "oslo" in runs[2].site.edges and runs[2].site.edges["oslo"].round > 5)
        for run in runs:
            run.site.convexity = float(problem.convexity)
        return (await ended).x

    async def everything():
        adding = asyncio.ensure_future(add())
        results = await run_all(runs)
        return [*(result.x for result in results.values()), await adding]

    assert np.abs(np.array(asyncio.run(everything())) - problem.solution).max() < 1e-5


@pytest.mark.slow
def test_a_run_in_which_a_site_was_added_is_repeated(tmp_path):
    """Its links draw their random numbers by numbers of the roster."""
    town = Town(tmp_path)
    problem = LeastSquares.random(4, DIM, 8, 5.0, 1)
    runs = [site_run(town, name, problem, number, tmp_path) for number, name in enumerate(NAMES)]

    async def add():
        tasks = [asyncio.ensure_future(each.run()) for each in runs]
        await until(lambda: runs[0].site.iteration > 10)
        add_oslo(town, "rome")
        runs.append(site_run(town, "oslo", problem, 3, tmp_path))
        runs[3].listen = None
        tasks.append(asyncio.ensure_future(runs[3].run()))
        await until(lambda: "oslo" in runs[2].site.edges and runs[2].site.edges["oslo"].round > 20)
        for each in runs:
            each.leave("the test is over")
        return np.array([result.x for result in await asyncio.gather(*tasks)])

    found = asyncio.run(asyncio.wait_for(add(), PATIENCE))
    files = [tmp_path / f"{name}.jsonl" for name in town.names]
    assert np.array_equal(replay(problem, town.roster, METHOD, files, 3), found)
    assert np.abs(replay(problem, town.roster.network(), METHOD, files, 3) - found).max() > 1e-9


@pytest.mark.slow
def test_a_site_whose_neighbours_are_all_gone_takes_in_one_that_is_added(tmp_path):
    town = Town(tmp_path, ("berlin", "paris"))
    problem = LeastSquares.random(3, DIM, 8, 5.0, 1)
    berlin, paris = (site_run(town, name, problem, number) for number, name in enumerate(town.names))

    async def add():
        tasks = [asyncio.ensure_future(each.run()) for each in (berlin, paris)]
        await until(lambda: berlin.site.iteration > 5)
        paris.leave("the test says so")
        await until(lambda: "no neighbour" in berlin.site.message)
        add_oslo(town, "berlin")
        oslo = site_run(town, "oslo", problem, 2)
        oslo.listen = None
        tasks.append(asyncio.ensure_future(oslo.run()))
        await until(lambda: "oslo" in berlin.site.edges and berlin.site.edges["oslo"].round > 3)
        for each in (berlin, oslo):
            each.leave("the test is over")
        await asyncio.gather(*tasks)

    asyncio.run(asyncio.wait_for(add(), PATIENCE))


def test_a_checkpoint_is_read_after_a_link_was_added(tmp_path):
    """Rows of links are found by the names of the neighbours; a new link starts at zero."""
    town = Town(tmp_path)
    problem = LeastSquares.random(4, DIM, 8, 5.0, 1)
    before = site_run(town, "rome", problem, 2).site
    before.node.begin()
    state = before.node.state
    before.node.state = state._replace(y=state.y.at[0].set(1.0).at[1].set(2.0), round=state.round.at[1].set(7))
    before.edges["paris"].epoch, before.edges["paris"].round = 4, 7
    checkpoints = SiteCheckpoints(tmp_path / "state", "mark")
    links = {name: standing(edge) for name, edge in before.edges.items()}
    checkpoints.write(before.node, links, {"iteration": 9})
    add_oslo(town, "rome")
    after = site_run(town, "rome", problem, 2).site
    after.node.begin()
    assert checkpoints.read(after.node, after.edges)["iteration"] == 9
    rows = {name: edge.row for name, edge in after.edges.items()}
    assert np.asarray(after.node.state.y)[[rows["berlin"], rows["paris"], rows["oslo"]], 0].tolist() == [1, 2, 0]
    assert (after.edges["paris"].epoch, after.edges["oslo"].epoch) == (4, 0)
    with pytest.raises(InputError, match="another run"):
        SiteCheckpoints(tmp_path / "state", "other").read(after.node, after.edges)


def write_files(town, tmp_path):
    """Write the files of all sites, each in a folder of its name."""
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.key").touch(mode=0o600)
        (folder / f"{name}.key").write_bytes(town.identities[name].key)
        (folder / f"{name}.pem").write_bytes(town.identities[name].pem)
        write_site(folder / "site.toml", name, roster=f"../{town.file.name}")


def in_threads(function):
    """Call a function with the number and the name of each site, in threads."""
    threads = [threading.Thread(target=function, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_node_of_a_site_takes_gradients_from_anywhere(tmp_path):
    write_files(Town(tmp_path), tmp_path)
    targets, found = np.arange(3.0 * DIM).reshape(3, DIM), {}

    def train(number, name):
        with Node(tmp_path / name / "site.toml", METHOD, dim=DIM) as node:
            assert node.number == number
            x = node.x
            for _ in range(120):
                x = node.step(x - targets[number])
            found[name] = x, node.iteration, node.bytes_sent

    in_threads(train)
    for x, iterations, sent in found.values():
        assert np.abs(x - targets.mean(axis=0)).max() < 1e-6
        assert iterations == 120
        assert sent > 0
    assert len(found) == 3


@pytest.mark.slow
def test_the_pages_training_loop_runs(tmp_path):
    write_files(Town(tmp_path), tmp_path)
    page = (Path(__file__).parents[3] / "docs" / "peers.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    assert '"berlin/site.toml"' in code
    found = {}

    def train(number, name):
        scope = {}
        exec(code.replace('"berlin/site.toml"', repr(str(tmp_path / name / "site.toml"))), scope)
        found[name] = scope["x"]

    in_threads(train)
    assert len(found) == 3
    assert all(np.abs(x - 3).max() < 1e-5 for x in found.values())


def test_a_node_whose_checkpoint_is_refused_leaves_no_port_open(tmp_path):
    town = Town(tmp_path)
    write_files(town, tmp_path)
    state = tmp_path / "berlin" / "state"
    state.mkdir()
    (state / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    with pytest.raises(InputError, match="checkpoint"):
        Node(tmp_path / "berlin" / "site.toml", METHOD, dim=DIM)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", town.ports["berlin"])) != 0


def test_a_node_checks_what_the_command_checks(tmp_path):
    town = Town(tmp_path)
    write_files(town, tmp_path)
    node = partial(Node, tmp_path / "berlin" / "site.toml", dim=DIM)
    with pytest.raises(InputError, match="D"):
        node(replace(METHOD, gradients=Gradients("D", 1)))
    certificate = tmp_path / "certificates" / "berlin.pem"
    replace_file(certificate, identity("berlin").pem)
    with pytest.raises(InputError, match="the roster has another certificate of berlin"):
        node(METHOD)
    town.file.write_text(town.text(withdrawn=["berlin"]))
    with pytest.raises(InputError, match="berlin is withdrawn"):
        node(METHOD)


def test_a_node_needs_a_site_file_that_is_there(tmp_path):
    with pytest.raises(InputError, match=r"site\.toml"):
        Node(tmp_path / "site.toml", METHOD, dim=DIM)
