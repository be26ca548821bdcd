"""One site of a run across sites, as `lessbits peer run` runs it; its iterates are noted on the side.

    python site_worker.py NOTES EVERY SITE.toml [options of `lessbits peer run`]

With `GRADIENT_SECONDS` in the environment, every gradient takes so much longer, as at a site with many rows.
"""

import os
import sys
import time

from notes import Notes


def note(file, every):
    """Have the iterate noted before the first iteration and after every so many."""
    from lessbits.engines.peers.run import SiteRun

    notes = Notes(file)
    begin, step, end = SiteRun.begin, SiteRun.step, SiteRun.end

    async def noted_begin(self):
        await begin(self)
        notes.add(0, self.site.node.x)

    async def noted_step(self):
        await step(self)
        if self.site.iteration % every == 0:
            notes.add(self.site.iteration, self.site.node.x)

    async def noted_end(self):
        notes.save()  # here, as a command that is interrupted ends at once
        return await end(self)

    SiteRun.begin, SiteRun.step, SiteRun.end = noted_begin, noted_step, noted_end


def slow_down(seconds):
    """Make every iteration's gradient take longer, in the thread that computes it."""
    from lessbits.engines.peers.program import SiteNode

    send, begin = SiteNode.send, SiteNode.begin

    def slow_send(self, *arguments):
        if self.begun:
            time.sleep(seconds)
        return send(self, *arguments)

    def fast_begin(self, *arguments):
        self.begun = False  # it calls `send` to compile
        begin(self, *arguments)
        self.begun = True

    SiteNode.send, SiteNode.begin = slow_send, fast_begin


def main():
    # Several sites share the cores of one machine, which they would not do elsewhere.
    for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    file, every, *arguments = sys.argv[1:]
    note(file, int(every))
    if seconds := os.environ.get("GRADIENT_SECONDS"):
        slow_down(float(seconds))
    from lessbits.cli.app import main as run

    sys.argv = ["lessbits", "peer", "run", *arguments]
    run()


if __name__ == "__main__":
    main()
