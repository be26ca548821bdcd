"""Random failures of sites in runs across sites, and how each run ended: a campaign, no part of the suite.

    python tests/peer_faults.py [--events 100] [--seed 0] [--most 4]

Each run has 5 sites: processes in network namespaces of their own, with keys, certificates and data. Into each, up to
four events are thrown: a site is killed, and comes back with its checkpoint, without, or not at all; it is stopped for
20 seconds; it is told to leave, and started again; a link, all links of a site, or those between two halves of the
network are down for 5 to 30 seconds. At the end every site that is there must have status 0 and an x within tolerance
of the optimum of those who are there, which is computed here from their data; nobody else may have been restarted;
and no process may be left. A site that comes back after the others have finished must end with a line that says so.
Where the network falls apart, each part may end by itself: what the sites say of who was missing must then be
explained by an event at each link between the parts, and x is held against the optimum of its part. A site that is
killed when the others have ended with it, and comes back, belongs to their part, and then ends in one of its own.
Prints a line per run. Status 1 if a run did not end as it should. It needs the rights to make namespaces.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from engines.peers.namespaces import Namespaces, allowed
from engines.peers.site_processes import Sites, ring
from mpi.jobs import processes_with

UNTIL = 1e-8
TOLERANCE = 3 * UNTIL**0.5  # of ‖x - x*‖: the target is for an estimate of its square
STOPPED = 20.0  # seconds
LONGEST = 300.0  # seconds of a run after the last event: it hangs
LATE = ("the run has ended without this site", "no neighbour was there for")
KINDS = (
    *("killed, back with checkpoint", "killed, back with nothing", "killed for good", "stopped for 20 s"),
    *("told to leave, and rerun", "link down", "all links of a site down", "halves apart"),
)


class Run:
    """One run, and what happens to it.

    Args:
        chance: Random numbers.
        sites: The processes.
        spaces: Their networks.
    """

    def __init__(self, chance, sites, spaces):
        self.chance, self.sites, self.spaces = chance, sites, spaces
        self.due, self.gone, self.cut = [], set(), set()
        self.touched = set()  # sites and links to which something was done
        self.busy = {}  # sites and links to which something is being done, and until when

    def at(self, seconds, action, *arguments):
        """Do something later."""
        self.due.append((time.monotonic() + seconds, action, arguments))

    def throw(self, kind):
        """Let an event happen, and return whether it could."""
        free = [name for name in self.sites.names if self.busy.get(name, 0) < time.monotonic()]
        free = [name for name in free if name not in self.gone and self.sites.processes[name].poll() is None]
        if kind.endswith("down") or kind == "halves apart":
            return self._cut(kind)
        if not free or (kind == "killed for good" and self.gone):
            return False
        name = self.chance.choice(free)
        self.touched.add(name)
        pause = STOPPED if kind.startswith("stopped") else self.chance.uniform(0.2, 8)
        self.busy[name] = time.monotonic() + pause + 8
        if kind.startswith("stopped"):
            self.sites.signal(name, signal.SIGSTOP)
            self.at(pause, self.sites.signal, name, signal.SIGCONT)
        elif kind.startswith("told"):
            self.sites.signal(name, signal.SIGTERM)
            self.at(pause, self._rerun, name)
        else:
            self.sites.kill(name)
            if kind == "killed for good":
                self.gone.add(name)
            else:
                self.at(pause, self._return, name, kind.endswith("nothing"))
        return True

    def _rerun(self, name):
        status = self.sites.wait(name, seconds=20)
        # The last: it was told so before Python could take the signal.
        assert status in ([130], [0], [-signal.SIGTERM]), f"{name} was told to leave, and ended with status {status}"
        self.sites.start(name)

    def _return(self, name, empty):
        if empty:
            shutil.rmtree(self.sites.place(name) / "state", ignore_errors=True)
        self.sites.start(name)

    def _cut(self, kind):
        links = self.spaces.links
        if kind == "link down":
            cut = {self.chance.choice(links)}
        else:
            few = self.chance.randrange(5)
            part = {few} if kind.startswith("all") else {few, (few + 1) % 5}
            cut = {link for link in links if len(part & set(link)) == 1}
        if self.cut:
            return False
        self.cut = cut
        self.touched |= cut
        for link in cut:
            self.spaces.cut(link)
        self.at(self.chance.uniform(5, 30), self._mend)
        return True

    def _mend(self):
        for link in self.cut:
            self.spaces.mend(link)
        self.cut = set()

    def work_off(self):
        """Do what is due."""
        now = time.monotonic()
        for entry in [entry for entry in self.due if entry[0] <= now]:
            self.due.remove(entry)
            entry[1](*entry[2])

    def ended(self):
        """Return whether all processes have ended."""
        return all(process.poll() is not None for process in self.sites.processes.values())

    def to_the_end(self):
        """Let the rest happen, and wait until all sites have ended."""
        until = time.monotonic() + LONGEST
        while self.due or not self.ended():
            self.work_off()
            self._release_the_empty()
            assert time.monotonic() < until or self.due, "sites do not end"
            time.sleep(0.05)

    def _release_the_empty(self):
        """Tell a site to leave that came back with nothing when all others had ended: it waits for a run to begin."""
        running = [name for name, process in self.sites.processes.items() if process.poll() is None]
        for name in running if not self.due else []:
            waits = "to say how many rows" in self.sites.status(name).get("message", "")
            if waits and len(running) == 1:
                self.sites.signal(name, signal.SIGTERM)
                self.sites.wait(name, seconds=20)

    def check(self):
        """Check how the run has ended; return the worst distance, the sites that came too late, and the parts."""
        sites, late = self.sites, []
        for name in sites.names:
            status = sites.processes[name].returncode
            if name not in self.gone and status != 0:
                said = sites.said(name)
                left = status == 130 and "interrupted" in said
                assert self._explained({name}), f"{name} ended with status {status}, though nothing was done to it"
                assert left or (status == 2 and any(line in said for line in LATE)), f"{name}: status {status}"
                late.append(name)
        worst, there = 0.0, [name for name in sites.names if name not in self.gone and name not in late]
        assert there, "nobody is there"
        parts = self._parts(there)
        assert all(map(self._explained, parts)), f"the run fell into {parts}, though all could reach each other"
        for part in parts:
            members = [name for name in part if name in there]
            for name in members:
                assert sites.result(name)[0]["converged"], f"{name} did not reach the target"
                together = {frozenset(part), frozenset(part | self._earlier(part & set(there)))}
                worst = max(worst, min(sites.distance(name, sorted(each)) for each in together))
        assert worst <= TOLERANCE, f"x is {worst:.1e} from the optimum"
        return worst, late, len(parts)

    def _explained(self, part):
        """Return whether something was done to each link between a part and the rest, or to one of its ends."""
        ends = {link: {self.sites.names[number] for number in link} for link in self.spaces.links}
        return all(
            link in self.touched or names & self.touched for link, names in ends.items() if len(names & part) == 1
        )

    def _earlier(self, part):
        """Return the sites with whose earlier process a part has ended: killed after that, they ended another run."""
        names = [{self.sites.names[number] for number in link} for link in self.spaces.links]
        around = {(one, other) for link in names for one in link & part for other in link - part}
        missed = {name: self.sites.result(name)[0]["without"] for name in part}
        return {other for one, other in around if self.sites.starts[other] > 1 and other not in missed[one]}

    def _parts(self, there):
        """Return who was in the run with whom when its end was decided, as the sites that are there say it."""
        without = {name: sorted(self.sites.result(name)[0]["without"]) for name in there}
        names = [tuple(self.sites.names[number] for number in link) for link in self.spaces.links]
        ends = [link for link in names if set(link) & set(there)]
        ends = [(one, two) for one, two in ends if one not in without.get(two, []) and two not in without.get(one, [])]
        parts = joined([{name} for name in self.sites.names], ends)
        return [part for part in parts if part & set(there)]


def joined(parts, links):
    """Return parts of a network, joined where a link has its ends in two of them."""
    for link in links:
        ends = [part for part in parts if part & set(link)]
        parts = [part for part in parts if part not in ends] + [set().union(*ends)]
    return parts


def play(chance, folder, kinds):
    """Play a run into which events are thrown, and return those that happened and what to print."""
    links = ring(5, chord=chance.random() < 0.5)
    patience = chance.choice([3, 3, 3, 10])
    problem, slowness, penalty = chance.choice([("least-squares", 4000.0, 5e-3), ("logistic", 400.0, 1e-3)])
    flags = ("--checkpoint-every", 1, "--patience", patience, "--give-up-after", 40)
    happened = []
    with Namespaces(links) as spaces:
        options = {"hosts": spaces.hosts, "prefix": spaces.prefix, "seed": chance.randrange(1000), "iterations": 10**6}
        options |= {"slowness": slowness, "penalty": penalty, "until": UNTIL}
        sites = Sites(folder, links, problem=problem, flags=flags, **options)
        run = Run(chance, sites, spaces)
        began = time.monotonic()
        try:
            sites.start()
            sites.wait_for_iteration(5)
            for kind in kinds:
                pause = time.monotonic() + chance.uniform(0.2, 6)
                while time.monotonic() < pause:
                    run.work_off()
                    time.sleep(0.05)
                if not run.ended() and run.throw(kind):
                    happened.append(kind)
            run.to_the_end()
            worst, late, parts = run.check()
            left = processes_with(str(folder))
            assert not left, f"processes are left: {left}"
        except Exception as error:
            raise AssertionError(f"{'; '.join(happened)} (patience {patience}): {error}\n{sites.story()}") from error
        finally:
            sites.end()
    line = f"{problem}, patience {patience}: {'; '.join(happened)}: {time.monotonic() - began:.0f} s, {worst:.1e} apart"
    line += f", in {parts} parts" if parts > 1 else ""
    return happened, late, line + (f", too late: {', '.join(late)}" if late else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=4, help="events in one run")
    arguments = parser.parse_args()
    if not allowed():
        parser.error("network namespaces cannot be made: run this as root, where iproute2 is installed")
    for number in (signal.SIGINT, signal.SIGTERM):  # however it is ended, it takes its processes and namespaces along
        signal.signal(number, signal.default_int_handler)
    chance, events, runs, bad, late, split = random.Random(arguments.seed), Counter(), 0, 0, 0, 0
    while events.total() < arguments.events and bad <= 5:
        most = min(arguments.most, arguments.events - events.total())
        kinds = [chance.choice(KINDS) for _ in range(chance.randint(1, most))]
        with tempfile.TemporaryDirectory(prefix="lessbits-peers-") as folder:
            runs += 1
            try:
                happened, latecomers, line = play(random.Random(chance.random()), Path(folder) / "run", kinds)
                events.update(happened)
                late += len(latecomers)
                split += " parts" in line
                print(f"run {runs}: {line}", flush=True)
            except Exception:
                bad += 1
                events.update(kinds)
                print(f"run {runs} ended badly: {', '.join(kinds)}\n{traceback.format_exc()}", flush=True)
    print("| event | times |\n|---|---|")
    for name, count in sorted(events.items()):
        print(f"| {name} | {count} |")
    print(f"\n{events.total()} events in {runs} runs (seed {arguments.seed}): {runs - bad} reached their target.")
    print(f"In {split}, the network fell apart, and each part ended by itself. {late} sites came back after the end.")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
