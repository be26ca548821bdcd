"""Programs that are kept between runs: whole, once, and only those of processes that ended well."""

import os
import platform
import subprocess
import sys
import time

import jax
import pytest
from tiers import slow_but

from lessbits._internal import programs

PROGRAM = """
import os, sys
import jax, jax.numpy as jnp
from lessbits._internal.programs import keep_compiled
keep_compiled()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.jit(lambda x: jnp.sin(x) @ x)(jnp.ones(3))
if sys.argv[1] == "killed":
    os._exit(1)
"""


def run(how, home):
    environment = {**os.environ, "XDG_CACHE_HOME": str(home)}
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM, how], env=environment, check=how == "well")
    (folder,) = (home / "lessbits").iterdir()
    kept = {path.name: path.stat().st_mtime_ns for path in folder.iterdir() if path.is_file()}
    return kept, [path for path in folder.iterdir() if path.is_dir()]


def test_a_process_keeps_its_programs_when_it_ends_and_the_next_one_finds_them(tmp_path):
    assert run("killed", tmp_path)[0] == {}
    kept, working = run("well", tmp_path)
    assert any(name.startswith("jit__lambda") for name in kept)
    assert working == []  # that of the killed process was removed, too
    assert run("well", tmp_path) == (kept, working)


@pytest.mark.parametrize("damage", slow_but(["flipped"], ["cut", "flipped", "emptied", "replaced"]))
def test_a_damaged_program_is_mended_once_without_a_word(damage, tmp_path):
    """Warnings are errors in these processes."""
    run("well", tmp_path)
    (folder,) = (tmp_path / "lessbits").iterdir()
    (program,) = (path for path in folder.iterdir() if path.name.startswith("jit__lambda"))
    whole = program.read_bytes()
    middle = len(whole) // 2
    spoilt = {
        "cut": whole[:middle],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "emptied": b"",
        "replaced": b"no program",
    }[damage]
    program.write_bytes(spoilt)
    kept, _ = run("well", tmp_path)
    assert program.read_bytes() != spoilt
    assert run("well", tmp_path)[0] == kept  # found, and not compiled again


def test_forgotten_folders_and_the_oldest_programs_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MOST_BYTES", 25)
    now = time.time()
    for name, age in (("old", 300), ("new", 100), ("newest", 0)):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (now - age, now - age))
    gone, here = f"at-work-{2**31}-x-{platform.node()}", f"at-work-{os.getpid()}-x-{platform.node()}"
    afar = 2 * programs.FORGOTTEN
    for name, age in (("at-work-1-x-afar", afar), ("at-work-1-y-afar", 0), (gone, 0), (here, afar)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (now - age, now - age))
    programs._prune(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "newest", "at-work-1-y-afar", here}


def test_programs_that_another_process_removes_meanwhile_are_passed_over(tmp_path, monkeypatch):
    (tmp_path / "gone").symlink_to(tmp_path / "removed")  # its size cannot be read
    (tmp_path / "large").write_bytes(bytes(100))
    monkeypatch.setattr(programs, "MOST_BYTES", 10)
    programs._prune(tmp_path)
    assert os.listdir(tmp_path) == ["gone"]


@pytest.mark.parametrize("name", ["LESSBITS_COMPILED", "JAX_COMPILATION_CACHE_DIR"])
def test_the_user_can_say_otherwise(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(name, "off")
    programs.keep_compiled()
    assert list(tmp_path.iterdir()) == []


def test_a_process_with_too_many_programs_forgets_them(monkeypatch):
    double = jax.jit(lambda x: 2 * x)
    double(1.0)
    monkeypatch.setattr(programs, "SELDOM", 1)
    programs.make_room()
    assert double._cache_size() == 1
    monkeypatch.setattr(programs.Path, "read_text", lambda path: "3\n")  # memory maps that a process may have
    programs.make_room()
    assert double._cache_size() == 0


def test_simulating_makes_room(monkeypatch):
    from lessbits import Consensus, make_method, make_network, simulate
    from lessbits.engines.distributed import stepwise
    from lessbits.engines.simulate import sweep

    asked = []
    for module in (stepwise, sweep, sys.modules[simulate.__module__]):
        monkeypatch.setattr(module, "make_room", lambda module=module: asked.append(module.__name__))
    problem, network = Consensus.random(4, 3), make_network("ring", 4)
    method = make_method("primal-dual", problem, network)
    simulate(problem, network, method, iterations=2)
    simulate(problem, network, method, iterations=2, encode=True)
    sweep.sweep(problem, network, method, [{"theta": 0.1}], sweep.Budget(2))
    assert [name.rpartition(".")[2] for name in asked] == ["run", "stepwise", "sweep"]
