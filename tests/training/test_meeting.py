"""Links that are given: those of classes of one's own, and what is no links at all."""

from types import SimpleNamespace

import numpy as np
import pytest

from lessbits.errors import InputError, WireError
from lessbits.training.links import NoLinks, ThreadLinks
from lessbits.training.meeting import choose_links

WRONG = [
    3,
    "x",
    object(),
    ThreadLinks,
    SimpleNamespace(node=0, nodes=2),
    SimpleNamespace(node=2, nodes=2, exchange=dict),
    SimpleNamespace(node=0, nodes="2", exchange=dict),
    SimpleNamespace(node=None, nodes=2, exchange=dict),
    SimpleNamespace(node=0, nodes=2, exchange=3),
]


@pytest.mark.parametrize("links", WRONG)
def test_what_is_no_links_is_told_in_one_line(links):
    with pytest.raises(InputError, match=r"^links is ") as caught:
        choose_links(links, None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("site", [3, b"x", "", 0.5, ["site.toml"]])
def test_what_is_no_file_of_a_site_is_told_in_one_line(site):
    with pytest.raises(InputError, match=r"^site is ") as caught:
        choose_links(None, site)
    assert "\n" not in str(caught.value)


def test_an_object_with_three_names_carries_bytes():
    closed = []
    given = SimpleNamespace(node=np.int64(1), nodes=3, exchange=lambda frames: {0: b"no", **frames})
    links = choose_links(given, None)
    assert (links.node, links.nodes, links.steady, links.network()) == (1, 3, True, None)
    assert links.exchange({2: b"yes"}) == {0: b"no", 2: b"yes"}
    links.close()  # which it need not have
    given.close = lambda: closed.append(1)
    links.close()
    assert closed == [1]


@pytest.mark.parametrize("name", ["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"])
def test_processes_that_do_not_find_each_other_do_not_train_alone(monkeypatch, name):
    """As those of torchrun, or of the mpiexec of another MPI."""
    monkeypatch.setenv(name, "1")
    assert choose_links(None, None).nodes == 1
    monkeypatch.setenv(name, "3")
    with pytest.raises(InputError, match="3 processes were started, but MPI finds none but this one: start them with"):
        choose_links(None, None)


def test_links_are_used_as_they_are():
    links = NoLinks()
    assert choose_links(links, None) is links


def test_links_of_a_user_that_lose_a_message_are_refused():
    links = choose_links(SimpleNamespace(node=0, nodes=2, exchange=lambda frames: {}), None)
    with pytest.raises(WireError, match="returned no bytes of node 1"):
        links.exchange({1: b"a"})
