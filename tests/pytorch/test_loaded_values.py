"""Values that are loaded after a model was wrapped, in any order of resuming."""

import copy
import pickle
import re
import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytorch.test_gossip import make_model, train  # noqa: E402

from lessbits.errors import InputError  # noqa: E402
from lessbits.torch import Gossip, ThreadLinks  # noqa: E402

EVERY = 3


def saved_after(steps):
    model = make_model()
    gossip = Gossip(model, EVERY)
    train(model, 0, steps, gossip)
    return copy.deepcopy(model.state_dict()), gossip.state_dict()


@pytest.mark.parametrize("part", [False, True])
def test_values_that_are_loaded_after_wrapping_are_told_in_one_line(part):
    values, _ = saved_after(4)

    def one(links):
        model = make_model()
        gossip = Gossip(model, EVERY, links=links)
        if part:
            model[2].load_state_dict({"weight": values["2.weight"], "bias": values["2.bias"]})
        else:
            model.load_state_dict(values)
        gossip.step()

    with pytest.raises(InputError, match=r"^a state was loaded into the model after .* gossip.state_dict\(\) too$"):
        ThreadLinks.run(2, one)


@pytest.mark.parametrize("order", list(permutations(("model", "optimizer", "gossip"))))
def test_a_run_is_resumed_in_any_order_after_wrapping(order):
    values, state = saved_after(4)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gossip = Gossip(model, EVERY)
    for name in order:
        if name == "optimizer":
            optimizer.load_state_dict(optimizer.state_dict())
        else:
            (model if name == "model" else gossip).load_state_dict(values if name == "model" else state)
    train(model, 0, 1, gossip)
    assert gossip.steps == 5
    model.load_state_dict(values)  # and again, without the state that belongs to it
    with pytest.raises(InputError, match="loaded into the model"):
        gossip.step()


def test_values_that_are_loaded_back_are_no_change():
    values, _ = saved_after(4)
    model = make_model()
    gossip = Gossip(model, EVERY)
    own = copy.deepcopy(model.state_dict())
    model.load_state_dict(values)  # to evaluate an average, for example
    model.load_state_dict(own)
    gossip.step()


def test_copies_of_a_wrapped_model_have_nothing_to_do_with_it():
    values, _ = saved_after(4)
    model = make_model()
    gossip = Gossip(model, EVERY)
    written = pickle.dumps(model)
    assert b"lessbits" not in written
    for other in (pickle.loads(written), copy.deepcopy(model)):
        other.load_state_dict(values)
        assert not gossip.loading.before
    gossip.step()
    loading = gossip.loading
    del gossip, loading
    model.load_state_dict(values)  # nobody is told


def resumed(steps):
    """Return the script of the page that trains so many steps, and prints where it starts and where it ends."""
    page = (Path(__file__).parents[2] / "docs" / "neural.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[:2]
    tell = 'print(f"at {gossip.steps}.{gossip.exchanges};\\n", end="", flush=True)\n'
    loop = second.replace("< 100", f"< {steps}").replace("\nwhile", f"\n{tell}\nwhile")
    return first.partition("for step")[0] + loop + tell


def test_the_script_of_the_page_goes_on_where_it_was_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for steps in (50, 100):
        exec(compile(resumed(steps), "neural.md", "exec"), {})
    assert re.findall(r"at (\d+)", capsys.readouterr().out) == ["0", "50", "50", "100"]
    assert sorted(path.name for path in Path("checkpoints").iterdir()) == ["step-100-node-0.pt", "step-50-node-0.pt"]
    stopped = torch.load("checkpoints/step-100-node-0.pt")
    shutil.rmtree("checkpoints")
    exec(compile(resumed(100), "neural.md", "exec"), {})
    straight = torch.load("checkpoints/step-100-node-0.pt")
    for name, tensor in straight["model"].items():
        assert torch.equal(stopped["model"][name], tensor), name


def test_a_save_of_the_page_that_breaks_off_leaves_the_one_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(resumed(50), "neural.md", "exec"), {})

    def broken(state, path):
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="no space left"):
        exec(compile(resumed(100), "neural.md", "exec"), {})
    assert torch.load("checkpoints/step-50-node-0.pt")["gossip"]["counts"]["steps"] == 50
    assert not Path("checkpoints/step-100-node-0.pt").exists()


@pytest.mark.slow
def test_two_nodes_go_on_where_they_were_stopped(tmp_path):
    script = tmp_path / "train.py"
    command = [Path(sys.executable).parent / "lessbits", "launch", "--nodes", "2", script]
    for steps, found in ((50, ["0.0", "50.2"]), (100, ["50.2", "100.5"])):
        script.write_text(resumed(steps))
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        assert sorted(re.findall(r"at ([\d.]+);", done.stdout)) == sorted(found * 2)
    (tmp_path / "checkpoints" / "step-100-node-1.pt").unlink()  # as if it had been killed before it wrote
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"at ([\d.]+);", done.stdout)) == sorted(["50.2", "100.5"] * 2)


def test_a_state_of_gossip_without_the_models_is_warned_of(caplog):
    def one(links, load_model):
        model = make_model()
        gossip = Gossip(model, every=4, links=links, network="complete")
        train(model, links.node, 6, gossip)
        values, state = copy.deepcopy(model.state_dict()), gossip.state_dict()
        model = make_model()
        gossip = Gossip(model, every=4, links=links, network="complete")
        if load_model:
            model.load_state_dict(values)
        gossip.load_state_dict(state)
        gossip.step()

    for load_model in (True, False):
        ThreadLinks.run(2, lambda links, load_model=load_model: one(links, load_model))
        assert ("none into the model" in caplog.text) is not load_model
