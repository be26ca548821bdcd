"""Files of the nodes' own: one width and one list of classes for all, whoever holds them."""

import numpy as np
import pytest

from lessbits._internal.team import SINGLE_PROCESS, SingleProcessTeam
from lessbits.datasets.shards import load_shards
from lessbits.errors import InputError

FILES = ["3 1:1 4:2\n1 2:1\n", "2 1:5\n", "3 2:4\n3 3:1\n"]


@pytest.fixture
def pattern(tmp_path):
    for node, text in enumerate(FILES):
        (tmp_path / f"part-{node}.libsvm").write_text(text)
    return str(tmp_path / "part-{node}.libsvm")


class WithAnother(SingleProcessTeam):
    """A team with one more process, which has more features and another class."""

    def __init__(self, *theirs):
        self.theirs = list(theirs)

    def all_gather(self, rows):
        return np.concatenate([rows, self.theirs.pop(0)])


def test_the_parts_are_as_wide_as_the_widest_and_know_all_classes(pattern):
    shards = load_shards(pattern, range(3), None, SINGLE_PROCESS)
    assert [part.features.shape for part in shards.samples] == [(2, 4), (1, 4), (2, 4)]
    assert shards.samples[2].features.toarray().tolist() == [[0, 4, 0, 0], [0, 0, 1, 0]]
    assert shards.classes.tolist() == [1, 2, 3]
    assert [part.tolist() for part in shards.targets("softmax")] == [[2, 0], [1], [2, 2]]
    assert [part.tolist() for part in shards.targets("least-squares")] == [[3, 1], [2], [3, 3]]


def test_what_other_processes_hold_counts(pattern):
    team = WithAnother(np.array([7]), np.array([0.0, 3.0]))
    shards = load_shards(pattern, [1], None, team)
    assert shards.samples[0].features.shape == (1, 7)
    assert shards.classes.tolist() == [0, 2, 3]
    assert team.theirs == []


def test_rows_can_be_scaled(pattern):
    (part,) = load_shards(pattern, [0], None, SINGLE_PROCESS, normalize=True).samples
    np.testing.assert_allclose(np.linalg.norm(part.features.toarray(), axis=1), 1)


def test_an_absent_file_is_named_with_its_node(pattern):
    with pytest.raises(InputError, match=r"part-3\.libsvm', which node 3 needs"):
        load_shards(pattern, range(4), None, SINGLE_PROCESS)
