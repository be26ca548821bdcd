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
    roster.write_text(roster.read_text().replace("1e-09", "1e-05").replace("5e-05", "0.0005"))
    checkpoint = tmp_path / "mine" / "site-2" / "state" / "checkpoint.safetensors"
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
            if asked.returncode == 0 and json.loads(asked.stdout)["iteration"] > 50 and checkpoint.exists():
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


def test_settings_are_checked_before_a_site_connects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_command(monkeypatch, capsys, "peer", "up", "--nodes", "2", "--folder", "mine", "--prepare")
    roster = tmp_path / "mine" / "roster.toml"
    right = roster.read_text()
    command = ("peer", "run", "mine/site-0/site.toml", "--data", "mine/site-0/rows.npz")
    for setting, words in {
        'quantizer = "dti-4"': "unknown quantizer 'dti-4': did you mean 'dit-K'?",
        'option = "E"': "unknown option 'E'",
        'method = "choco"': "choco cannot run across sites",
        "quantiser = 'dit-4'": "unknown setting in the roster 'quantiser': did you mean 'quantizer'?",
    }.items():
        roster.write_text(right.replace("[settings]\n", f"[settings]\n{setting}\n"))
        found = run_command(monkeypatch, capsys, *command)
        assert found.status == 2
        assert words in found.err
        (line,) = found.err.strip().splitlines()
        assert len(line) < 300
        assert "listens" not in found.err


def test_a_site_says_what_it_does_before_it_reads_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made = run_command(monkeypatch, capsys, "peer", "up", "--nodes", "2", "--folder", "mine", "--prepare")
    assert "making keys, certificates and data of 2 sites in mine" in made.err
    found = run_command(monkeypatch, capsys, "peer", "run", "mine/site-1/site.toml", "--data", "nowhere.csv")
    assert found.status == 2
    first, last = found.err.strip().splitlines()
    assert re.search(r"site-1 of the run 'trial-\d+': listens at \S+, dials site-0, reads nowhere.csv", first)
    assert "nowhere.csv" in last


def test_the_page_is_asked_for_in_the_same_way(tmp_path, monkeypatch, capsys):
    for command in ("run", "up"):
        text = run_command(monkeypatch, capsys, "peer", command, "--help").out
        assert re.search(r"--live\s+[A-Z]", text), text  # a flag without a value
        assert "--live-port" in text


def test_a_site_that_waits_names_its_neighbours(tmp_path):
    from engines.peers.in_process import Town

    from lessbits.config.peer_view import PeerView
    from lessbits.config.peers import site_settings
    from lessbits.engines.peers.connections import Doors

    town = Town(tmp_path)
    member, said = town.member("berlin"), []
    view = PeerView(member, site_settings(town.roster), doors := Doors(member), said.append)
    view.waiting(["paris"])
    doors.failures["rome"] = "nobody listens there"
    from lessbits.report.peer_text import status_text

    text = "\n".join(status_text(view.snapshot()))
    assert "waiting for paris to say how many rows and features" in text
    assert "not yet met" in text
    assert "nobody listens there" in text
    assert "no neighbours" not in text
    assert not said
    view.since -= 30
    view.waiting(["paris"])
    assert said[0].startswith("waiting for paris to say")
    assert member.trusted["paris"].fingerprint in said[1]
    view.started -= 100  # as if reading the data had taken so long
    site = town.site_run("berlin").site
    view.show(site)
    assert view.snapshot()["seconds"] >= 100  # curves of the live page would go back in time else
    site.thread.shutdown()


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


def command_of(words):
    """Parse a command line as the program does, without running it, and return its name and parameters."""
    import typer

    from lessbits.cli.app import app

    command, words = typer.main.get_command(app), list(words)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    context = command.make_context(command.name, words)
    return command.name, context.params


def test_the_commands_of_the_files_of_deployment_exist():
    """Compose and Kubernetes add their arguments to the entry point of the image. Nothing of it was run."""
    import yaml  # comes with mkdocs

    image = (DEPLOY / "Dockerfile").read_text()
    program, *entry = json.loads(re.search(r"ENTRYPOINT (.*)", image)[1])
    (compose,) = yaml.safe_load_all((DEPLOY / "compose.yaml").read_text())
    service, stateful = yaml.safe_load_all((DEPLOY / "statefulset.yaml").read_text())
    site = compose["services"]["site"]
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    unit = re.search(r"ExecStart=(.*)", (DEPLOY / "lessbits-site.service").read_text())[1].split()
    commands = {
        "compose": [*entry, *site["command"]],
        "kubernetes": [*entry, *container["args"]],
        "systemd": unit[1:],
    }
    assert program == Path(unit[0]).name == "lessbits"
    for words in commands.values():
        name, parameters = command_of(words)
        assert name == "run"
        assert parameters["data"].endswith("rows.csv")
    assert (ROOT / "examples" / "deploy" / site["build"]["context"]).resolve() == ROOT
    assert (ROOT / site["build"]["dockerfile"]).exists()
    assert (service["kind"], stateful["kind"]) == ("Service", "StatefulSet")
    made = {volume["name"] for volume in pod["volumes"]}
    made |= {claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]}
    asked = [mount["name"] for each in (container, *pod["initContainers"]) for mount in each["volumeMounts"]]
    assert set(asked) == made
    assert service["spec"]["selector"] == stateful["spec"]["template"]["metadata"]["labels"]


def test_the_page_of_deployment_says_what_was_not_run():
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    tried = page.partition("## What was tried")[2].partition("\n## ")[0]
    for words in ("Compose file", "Dockerfile", "StatefulSet", "were not run", "systemd-analyze verify"):
        assert words in tried
    assert "<!-- not run: no Docker engine was at hand -->" in page


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
