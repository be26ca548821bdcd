"""Sites are nodes: groups, their names, and scikit-learn's metadata routing."""

import networkx
import numpy as np
import pytest
import sklearn
from fits import CLOSE, DIABETES, IRIS, SITES, assert_same, pooled
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lessbits.errors import InputError
from lessbits.sklearn import DecentralizedLogisticRegression, DecentralizedRidge


def test_groups_are_the_nodes():
    sites = np.where(IRIS[1] == 0, "north", np.where(IRIS[0][:, 0] > 6, "east", "west"))
    model = DecentralizedLogisticRegression(random_state=1, n_nodes=77, tol=CLOSE).fit(*IRIS, groups=sites)
    assert model.n_nodes_ == 3
    assert model.trace_.x.shape == (3, 15)
    assert_same(model, pooled().fit(*IRIS))
    assert list(model.groups_) == ["east", "north", "west"]
    for node in model.trace_.x:  # every site has the model
        np.testing.assert_allclose(node.reshape(5, 3).T, np.column_stack([model.coef_, model.intercept_]), atol=1e-6)


@pytest.fixture
def routing():
    """Switch on scikit-learn's metadata routing."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.slow
def test_groups_are_routed_to_the_fit_in_a_pipeline_and_a_search(routing):
    ridge = DecentralizedRidge(random_state=0).set_fit_request(groups=True)
    pipeline = make_pipeline(StandardScaler(), ridge).fit(*DIABETES, groups=SITES)
    search = GridSearchCV(ridge, {"alpha": [0.1, 10.0]}, cv=2).fit(*DIABETES, groups=SITES)
    assert pipeline[-1].groups_.tolist() == search.best_estimator_.groups_.tolist() == [0, 1, 2, 3, 4]
    assert search.best_params_ == {"alpha": 0.1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("splitter", "nodes"), [pytest.param(KFold(2), [5, 5], marks=pytest.mark.slow), (GroupKFold(5), [4] * 5)]
)
def test_groups_are_routed_to_the_fit_in_cross_validation(routing, splitter, nodes):
    ridge = DecentralizedRidge(random_state=0, tol=1e-3).set_fit_request(groups=True)
    found = cross_validate(ridge, *DIABETES, cv=splitter, params={"groups": SITES}, return_estimator=True)
    assert [model.n_nodes_ for model in found["estimator"]] == nodes
    if isinstance(splitter, GroupKFold):  # it takes the groups too: each model was fitted without one site
        assert sorted({*range(5)}.difference(model.groups_).pop() for model in found["estimator"]) == [0, 1, 2, 3, 4]
    scores = cross_val_score(ridge, *DIABETES, cv=splitter, params={"groups": SITES})
    np.testing.assert_array_equal(scores, found["test_score"])


@pytest.mark.slow
def test_groups_that_the_fit_does_not_ask_for_only_split(routing):
    ridge = DecentralizedRidge(random_state=0, n_nodes=3, tol=1e-3).set_fit_request(groups=False)
    found = cross_validate(ridge, *DIABETES, cv=GroupKFold(2), params={"groups": SITES}, return_estimator=True)
    assert [model.n_nodes_ for model in found["estimator"]] == [3, 3]
    with pytest.raises(ValueError, match="groups"):  # nobody was told whether the fit wants them
        cross_validate(DecentralizedRidge(), *DIABETES, cv=KFold(2), params={"groups": SITES}, error_score="raise")


@pytest.mark.slow
def test_groups_of_an_earlier_fit_are_forgotten():
    model = DecentralizedRidge(random_state=0, n_nodes=3, tol=0.5).fit(*DIABETES, groups=SITES)
    assert model.groups_.tolist() == [0, 1, 2, 3, 4]
    assert not hasattr(model.fit(*DIABETES), "groups_")


@pytest.mark.slow
def test_a_graph_of_sites_is_matched_by_name(tmp_path):
    sites = np.array(["a", "b", "c", "d"])[np.arange(442) % 4]
    graph = networkx.Graph([("d", "a"), ("d", "b"), ("d", "c")])  # a star around the last in order
    model = DecentralizedRidge(network=graph, random_state=0, tol=0.5).fit(*DIABETES, groups=sites)
    first, second, _ = model.trace_.provenance["edges"]
    assert {*zip(first, second, strict=True)} == {(0, 3), (1, 3), (2, 3)}
    loaded = model.save(tmp_path / "model") or DecentralizedRidge.load(tmp_path / "model")
    again = loaded.fit(*DIABETES, groups=sites).trace_.provenance["edges"]
    assert {*zip(*again[:2], strict=True)} == {(0, 3), (1, 3), (2, 3)}


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (networkx.Graph([("Basel", "Genève"), ("Basel", "Zug")]), "site 'Genf' is no node, node 'Genève' is no site"),
        (networkx.path_graph(3), "site 'Basel' is no node, node '0' is no site, and 4 more"),
    ],
    ids=["spelling", "numbers"],
)
def test_names_of_sites_that_are_no_nodes_are_refused(graph, says):
    sites = np.array(["Basel", "Genf", "Zug"])[np.arange(442) % 3]
    with pytest.raises(InputError, match=says):
        DecentralizedRidge(network=graph).fit(*DIABETES, groups=sites)


@pytest.mark.slow
def test_an_edge_list_uses_the_names_of_the_sites(tmp_path):
    sites = np.array(["Basel", "Genf", "Zug"])[np.arange(442) % 3]
    (tmp_path / "links").write_text("Zug Genf\nZug Basel\n")
    model = DecentralizedRidge(network=tmp_path / "links", tol=0.5, random_state=0).fit(*DIABETES, groups=sites)
    assert {*zip(*model.trace_.provenance["edges"][:2], strict=True)} == {(0, 2), (1, 2)}
    (tmp_path / "links").write_text("Zug Genève\nZug Basel\n")
    with pytest.raises(InputError, match="has a node 'Genève', but no site has that name"):
        model.fit(*DIABETES, groups=sites)


def test_a_network_of_another_size_says_where_each_number_comes_from():
    with pytest.raises(
        InputError, match=r"the network has 3 nodes, but n_nodes is 10: give n_nodes=3, or fit with groups"
    ):
        DecentralizedRidge(network=networkx.path_graph(3), n_nodes=10).fit(*DIABETES)
    with pytest.raises(InputError, match="the network has 3 nodes, but groups names 5 sites"):
        DecentralizedRidge(network=np.ones((3, 3)) - np.eye(3)).fit(*DIABETES, groups=SITES)


@pytest.mark.slow
def test_spaces_around_the_names_of_groups_make_no_further_sites(caplog):
    sites = np.array(["Bern", "Bern ", "Zug"], object)[np.arange(442) % 3]
    model = DecentralizedRidge(tol=0.5, random_state=0).fit(*DIABETES, groups=sites)
    assert model.groups_.tolist() == ["Bern", "Zug"]
    assert "spaces around the names of sites of groups are left out" in caplog.text
