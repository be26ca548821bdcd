"""The command `lessbits peer`: a network on this machine, made and run by one command or by hand."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import run_command

import lessbits

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"


def start(folder, *arguments):
    command = [sys.executable, "-m", "lessbits", "peer", *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_a_network_is_made_and_run_by_one_command(tmp_path, monkeypatch, capsys, mode):
    monkeypatch.chdir(tmp_path)
    found = run_command(monkeypatch, capsys, "peer", "up", "--nodes", "3", "--mode", mode)
    assert found.status == 0, found.err
    distances = [float(number) for number in re.findall(r"(\S+)$", found.out, re.MULTILINE)[1:]]
    assert len(distances) == 3
    assert max(distances) < 1e-3
    assert "site-0: site-1 is connected" in found.err


@pytest.mark.slow
def test_sites_are_prepared_and_started_by_hand(tmp_path, monkeypatch, capsys):
    """Three processes, of which one is asked for its status, killed, and started again with the same command."""
    monkeypatch.chdir(tmp_path)
    found = run_command(monkeypatch, capsys, "peer", "up", "--nodes", "3", "--folder", "mine", "--prepare")
    commands = [line.split()[2:] for line in found.out.splitlines()]
    assert [command[0] for command in commands] == ["run"] * 3
    roster = tmp_path / "mine" / "roster.toml"
    roster.write_text(roster.read_text().replace("1e-09", "1e-05").replace("0.0001", "0.0005"))
    extra = ("--json", "result.json", "--patience", "2", "--checkpoint-every", "0.5")
    sites = [start(tmp_path, *command, *extra) for command in commands]
    try:
        for _ in range(600):
            asked = subprocess.run(
                [sys.executable, "-m", "lessbits", "peer", "status", "mine/site-1/site.toml", "--json", "-"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            if asked.returncode == 0 and json.loads(asked.stdout)["iteration"] > 50:
                break
        sites[2].kill()
        sites[2].communicate()
        sites[2] = start(tmp_path, *commands[2], *extra)
        outputs = [site.communicate(timeout=600)[0] for site in sites]
        assert [site.returncode for site in sites] == [0, 0, 0], outputs
        assert "goes on from a checkpoint" in outputs[2]
    finally:
        for site in sites:
            site.kill()
            site.wait()
            site.stdout.close()


def test_a_folder_with_sites_is_not_overwritten(tmp_path, monkeypatch, capsys):
    (tmp_path / "site-0").mkdir()
    found = run_command(monkeypatch, capsys, "peer", "up", "--folder", str(tmp_path), "--prepare")
    assert found.status == 2
    assert "has sites already" in found.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["up", "--nodes", "1", "--prepare"], "nodes is 1"),
        (["up", "--nodes", "65", "--prepare"], "nodes is 65"),
        (["up", "--mode", "fast", "--prepare"], "lockstep"),
        (["run", "nowhere.toml"], "nowhere.toml"),
        (["status", "nowhere.toml"], "nowhere.toml"),
        (["status", "mine/site-0/site.toml"], "site-0: no site runs"),
        (["run", "mine/site-0/site.toml", "--data", "mine/site-0/rows.npz", "--patience", "-1"], "patience is -1"),
        (["run", "mine/site-0/site.toml", "--data", "nowhere.csv"], "nowhere.csv"),
        (["run", "mine/site-0/site.toml", "--solution", "mine/site-0/site.toml"], "site.toml"),
    ],
)
def test_mistakes_get_a_line(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    if "mine" in " ".join(arguments):
        run_command(monkeypatch, capsys, "peer", "up", "--nodes", "2", "--folder", "mine", "--prepare")
    found = run_command(monkeypatch, capsys, "peer", *arguments)
    assert found.status == 2, found
    assert words in found.err
    assert len(found.err.strip().splitlines()) == 1


def test_the_roster_of_the_page_is_one(tmp_path):
    text = (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")
    table = tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])
    from engines.peers.made_sites import identity, write_roster

    (tmp_path / "certificates").mkdir()
    for name in table["sites"]:
        (tmp_path / "certificates" / f"{name}.pem").write_bytes(identity(name).pem)
    roster = lessbits.read_roster(write_roster(tmp_path, re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1]))
    assert roster.network().names == ("berlin", "paris", "rome")
    from lessbits.config.peers import site_settings

    assert site_settings(roster).settings.problem == "logistic"


def test_the_files_of_deployment_say_what_the_command_takes():
    import yaml  # comes with mkdocs

    for file in ("compose.yaml", "statefulset.yaml"):
        assert list(yaml.safe_load_all((DEPLOY / file).read_text()))
    unit = (DEPLOY / "lessbits-site.service").read_text()
    flags = set(re.findall(r"(--[a-z-]+)", unit + (DEPLOY / "compose.yaml").read_text()))
    help_text = subprocess.run(
        [sys.executable, "-m", "lessbits", "peer", "run", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert {"--data", "--log"} <= flags
    assert all(flag in help_text for flag in flags)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_the_unit_file_is_valid(tmp_path):
    program = tmp_path / "lessbits"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "lessbits-site.service"
    text = (DEPLOY / "lessbits-site.service").read_text().replace("/opt/lessbits/bin/lessbits", str(program))
    unit.write_text(text.replace("User=lessbits", "User=root"))
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    mine = [line for line in found.stderr.splitlines() if "lessbits-site" in line and "Unknown" in line]
    assert mine == []
