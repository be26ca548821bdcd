"""Sites that are killed, stopped, told to leave and cut off: the others go on, and all who are there find the optimum.

`python tests/peer_faults.py` throws many more failures, at random.
"""

import shutil
import signal
import time

import pytest
from engines.peers.namespaces import Namespaces, allowed
from engines.peers.site_processes import Sites, ring

FLAGS = ("--checkpoint-every", 0.1, "--patience", 2)
LONG = {"slowness": 4000.0, "penalty": 5e-3}  # some thousand iterations
FAR = 1e-3  # from the optimum; the target is 1e-4


def reached(sites, names, present, without=()):
    """Check that sites have ended at the optimum of those present."""
    assert sites.wait(*names) == [0] * len(names), sites.story()
    for name in names:
        result, _ = sites.result(name)
        assert result["converged"], sites.story()
        assert set(result["without"]) <= set(without), sites.story()
        assert sites.distance(name, present) < FAR, sites.story()


@pytest.mark.slow
def test_a_run_goes_on_with_three_failures(tmp_path):
    """One site is stopped for a moment, then killed and brought back, and one is killed for good.

    The neighbour of the first waits for it however long that takes, so the run cannot end before it is back.
    """
    links, own = [(0, 1), (1, 2), (2, 3)], {"site-1": ["--patience", 1000]}
    with Sites(tmp_path / "run", links, flags=FLAGS, own=own, slowness=200.0) as sites:
        sites.start()
        sites.wait_until((sites.place("site-0") / "state" / "checkpoint.safetensors").exists, "there is a checkpoint")
        sites.wait_for_iteration(3, "site-3")  # else it may not have been there yet
        sites.signal("site-0", signal.SIGSTOP)
        time.sleep(0.5)
        sites.signal("site-0", signal.SIGCONT)
        sites.kill("site-0")
        sites.kill("site-3")
        sites.start("site-0")
        reached(sites, sites.names[:3], sites.names[:3], without=["site-3"])
        assert "goes on from a checkpoint" in sites.said("site-0")
        assert "site-3 is set aside" in sites.said("site-2")
        assert list(sites.starts.values()) == [2, 1, 1, 1]
        assert sites.end() == []
    assert [process.poll() for process in sites.processes.values()] == [0, 0, 0, -signal.SIGKILL]


@pytest.mark.slow
def test_a_site_that_waits_for_the_others_is_alone_in_its_folder_and_leaves_when_told(tmp_path):
    with Sites(tmp_path / "run", ring(3), flags=FLAGS) as sites:
        sites.start("site-0")
        sites.wait_until(lambda: "rows" in sites.status("site-0").get("message", ""), "it waits")
        first = sites.processes["site-0"]
        assert sites.start("site-0").wait() == 2
        assert "another process of this site is running" in sites.said("site-0")
        first.send_signal(signal.SIGINT)
        assert first.wait() == 130


@pytest.mark.slow
@pytest.mark.parametrize("who", ["site-0", "site-2"])  # the first dials nobody
def test_a_site_comes_back_with_nothing(tmp_path, who):
    """Its neighbours wait for it however long that takes: on a busy machine the run would end before it is back."""
    with Sites(tmp_path / "run", ring(4), flags=("--checkpoint-every", 0.1, "--patience", 1000), **LONG) as sites:
        sites.start()
        sites.wait_for_iteration(100)
        sites.kill(who)
        shutil.rmtree(sites.place(who) / "state")
        sites.start(who)
        reached(sites, sites.names, sites.names)


@pytest.mark.slow
def test_a_stopped_site_is_set_aside_and_returns_by_itself(tmp_path):
    with Sites(tmp_path / "run", ring(4), flags=FLAGS, **LONG) as sites:
        sites.start()
        sites.wait_for_iteration(20)
        sites.signal("site-1", signal.SIGSTOP)
        sites.wait_until(lambda: "site-1 is set aside" in sites.said("site-2"), "it is set aside")
        sites.signal("site-1", signal.SIGCONT)
        reached(sites, sites.names, sites.names)


@pytest.mark.slow
@pytest.mark.parametrize("empty", [False, True])
def test_who_comes_after_the_end_is_told_so(tmp_path, empty):
    with Sites(tmp_path / "run", ring(3), flags=(*FLAGS, "--give-up-after", 3), **LONG) as sites:
        sites.start()
        sites.wait_for_iteration(50)
        sites.kill("site-1")
        reached(sites, ["site-0", "site-2"], ["site-0", "site-2"], without=["site-1"])
        if empty:
            shutil.rmtree(sites.place("site-1") / "state")
            sites.start("site-1")  # it cannot know that there was a run, and waits for one to begin
            sites.wait_until(lambda: "rows" in sites.status("site-1").get("message", ""), "it waits")
            sites.signal("site-1", signal.SIGTERM)
            assert sites.wait("site-1") == [130]
        else:
            sites.start("site-1")
            assert sites.wait("site-1") == [2]
            assert "no neighbour was there" in sites.said("site-1")


@pytest.mark.slow
def test_the_same_command_after_the_end_gives_the_result_again(tmp_path):
    with Sites(tmp_path / "run", ring(3), flags=FLAGS) as sites:
        sites.start()
        reached(sites, sites.names, sites.names)
        before = sites.result("site-1")[0]["iterations"]
        (sites.place("site-1") / "x.npy").unlink()
        sites.start("site-1")
        reached(sites, ["site-1"], sites.names)
        assert sites.result("site-1")[0]["iterations"] == before
        assert "has finished before" in sites.said("site-1")


@pytest.mark.slow
def test_ctrl_c_while_a_site_runs_and_waits(tmp_path):
    with Sites(tmp_path / "run", ring(3), flags=FLAGS, **LONG) as sites:
        sites.start()
        sites.wait_for_iteration(50)
        sites.signal("site-0", signal.SIGINT)  # it runs
        assert sites.wait("site-0") == [130]
        assert "site-0 leaves" in sites.said("site-1")
        for name in ("site-1", "site-2"):
            sites.kill(name)
        sites.start("site-0")
        sites.wait_until(lambda: "waiting for site" in sites.status("site-0").get("message", ""), "it waits")
        sites.signal("site-0", signal.SIGINT)  # it has its facts and a checkpoint, and waits for its neighbours
        assert sites.wait("site-0") == [130]
        sites.start()
        reached(sites, sites.names, sites.names)


@pytest.mark.slow
def test_ctrl_c_while_a_site_lingers(tmp_path):
    settings = {"mode": "async", "until": 1e-30, "iterations": 500}
    with Sites(tmp_path / "run", ring(3), flags=("--patience", 1000), **settings) as sites:
        sites.start()
        sites.wait_for_iteration(20)
        sites.signal("site-1", signal.SIGSTOP)  # one of the others finishes, and waits for it some seconds
        ended = []

        def one_lingers():
            ended[:] = [name for name in ("site-0", "site-2") if sites.status(name).get("state") == "finished"]
            return ended

        sites.wait_until(one_lingers, "a site lingers")
        sites.signal(ended[0], signal.SIGINT)
        assert sites.wait(ended[0]) == [130]
        assert sites.result(ended[0])[0]["iterations"] == 500
        assert "is refused" not in sites.said(ended[0])
        sites.start(ended[0])
        assert sites.wait(ended[0]) == [0]
        assert "has finished before" in sites.said(ended[0])


@pytest.mark.slow
@pytest.mark.skipif(not allowed(), reason="network namespaces cannot be made here")
def test_two_halves_that_were_cut_off_merge(tmp_path):
    links = ring(4)
    with (
        Namespaces(links) as spaces,
        Sites(
            tmp_path / "run",
            links,
            flags=FLAGS,
            hosts=spaces.hosts,
            prefix=spaces.prefix,
            slowness=4000.0,
            penalty=2e-3,
        ) as sites,
    ):
        sites.start()
        sites.wait_for_iteration(20)
        for link in links[1], links[3]:
            spaces.cut(link)
        sites.wait_until(lambda: "is set aside" in sites.said("site-0") + sites.said("site-3"), "the halves part")
        time.sleep(1)
        for link in links[1], links[3]:
            spaces.mend(link)
        reached(sites, sites.names, sites.names)
