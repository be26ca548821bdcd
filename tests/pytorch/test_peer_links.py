"""Training between sites: the same model as between threads, sites that die and come back, and mistakes."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("grpc")

from engines.peers.in_process import Town, write_sites  # noqa: E402
from pytorch.digits_sites import EVERY, RULE, loss_of, make_model, train  # noqa: E402

from lessbits.errors import InputError  # noqa: E402
from lessbits.torch import Gossip, Rule, ThreadLinks  # noqa: E402
from lessbits.torch.layout import Layout  # noqa: E402
from lessbits.training.event_loop import event_loop  # noqa: E402
from lessbits.training.peer_links import PeerLinks  # noqa: E402


def train_sites(files, steps, **changes):
    """Train all sites in threads, and return the models, or the errors."""
    results = [None] * len(files)

    def work(node):
        model = changes.get("model", make_model)()
        settings = {"every": EVERY, "rule": RULE, **changes.get("settings", lambda node: {})(node)}
        gossip = Gossip(model, site=files[node], **settings)
        try:
            train(model, gossip, steps)
            results[node] = (Layout(model).gather(), gossip)
        except InputError as error:
            results[node] = str(error)
        finally:
            gossip.close()

    threads = [threading.Thread(target=work, args=(node,)) for node in range(len(files))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_sites_train_the_model_of_threads(tmp_path):
    expected = train_threads(100)
    found = train_sites(write_sites(Town(tmp_path)), 100)
    for (model, bits), (other, gossip) in zip(expected, found, strict=True):
        assert torch.equal(Layout(model).gather(), other)
        assert gossip.bits == bits


def test_different_settings_are_one_clear_line(tmp_path):
    files = write_sites(Town(tmp_path, names=("berlin", "paris")))
    found = train_sites(files, 2 * EVERY, settings=lambda node: {"seed": node})
    assert all("berlin and paris have different settings: every, quantizer" in each for each in found)


def test_links_and_a_site_are_too_much(tmp_path):
    with pytest.raises(InputError, match="both links and site are given"):
        Gossip(make_model(), site=tmp_path / "site.toml", links=ThreadLinks.make(2)[0])


@pytest.mark.slow
@pytest.mark.parametrize("in_turn", [True, False])
def test_duals_add_up_to_zero_after_connections_were_cut(tmp_path, in_turn):
    gossips = {}

    def at_step(node, step):
        time.sleep(0.02 if step > 50 else 0)
        if node == 0 and step == 50:
            for link in gossips[0].links.links.values():
                event_loop().call_soon_threadsafe(link.outlet.close, "cut")

    def work(node):
        gossips[node] = Gossip(model := make_model(), EVERY, rule=Rule(turns=in_turn), site=files[node])
        train(model, gossips[node], 300, lambda step: at_step(node, step))
        gossips[node].close()

    files = write_sites(Town(tmp_path))
    threads = [threading.Thread(target=work, args=(node,)) for node in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(link.last_epoch > 1 for link in gossips[0].links.links.values())
    total = sum(gossip.dual for gossip in gossips.values())
    assert total.norm() < 1e-4 * gossips[1].dual.norm()


def start(file, steps, last=0, gate=""):
    script = Path(__file__).with_name("digits_sites.py")
    command = [sys.executable, str(script), str(file), str(steps), str(last), str(gate)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert not told["jax"]
    return {**told, "err": err}


def train_threads(steps):
    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, network="complete", rule=RULE, links=links)
        train(model, gossip, steps)
        return model, gossip.bits

    return ThreadLinks.run(3, one)


@pytest.mark.slow
def test_a_process_that_is_killed_comes_back(tmp_path):
    steps, last = 1500, 505
    files, gate = write_sites(Town(tmp_path)), tmp_path / "gate"
    processes = [start(file, steps, last * (node == 1)) for node, file in enumerate(files)]
    again = start(files[1], steps, gate=gate)
    processes[1].communicate(timeout=300)
    assert processes[1].returncode == -9
    gate.touch()
    found = [outcome(process) for process in (processes[0], again, processes[2])]
    assert all(told["exchanges"] == steps // EVERY for told in found)
    missed = steps - last - (found[1]["seen"] - EVERY)  # it took steps of its own before the first exchange
    assert missed > 0
    for told in (found[0], found[2]):
        assert told["err"].count("paris has gone: it is left out until it comes back") == 1
        assert told["err"].count("paris is back") == 1
    undisturbed = [loss_of(model) for model, _ in train_threads(steps)]
    losses = [told["loss"] for told in found]
    print(f"{missed} steps missed, losses {losses}, undisturbed {undisturbed}")
    assert losses == pytest.approx(undisturbed, rel=0.03)
    # The longer it is away, which depends on the machine, the less its data count: 2 % for 25 % of the run.
    if missed >= 0.1 * steps:
        pytest.skip(f"it missed {missed} of {steps} steps, too many for a loss within 1 % of the undisturbed one")
    assert losses == pytest.approx(undisturbed, rel=0.01)


def test_a_site_that_is_alone_says_so(tmp_path, caplog):
    files = write_sites(Town(tmp_path, names=("berlin", "paris")))
    model = make_model()
    gossip = Gossip(model, EVERY, rule=RULE, links=PeerLinks(files[0], begin_after=0.2))
    train(model, gossip, 2 * EVERY)
    gossip.close()
    said = [each.message for each in caplog.records if "paris" in each.message]
    assert said == ["paris is not there yet: it is left out until it comes back"]
