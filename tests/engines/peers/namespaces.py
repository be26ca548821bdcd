"""A network of its own for each site: a namespace, and a pair of virtual interfaces for each link, to be cut."""

import os
import subprocess


def allowed():
    """Return whether this process may make namespaces."""
    name = f"lessbits-probe-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    except OSError:
        return False
    if made:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return made


class Namespaces:
    """Namespaces for sites, in a `with` block, with a link for each pair.

    Each site has one address, on its loopback interface, and a route to each neighbour over the link between them.

    Args:
        links: Pairs of sites.
    """

    def __init__(self, links):
        self.links, self.count = links, 1 + max(max(link) for link in links)
        self.hosts = [f"10.77.{number}.1" for number in range(self.count)]

    def name(self, number):
        """Return the namespace of a site."""
        return f"lessbits-{os.getpid()}-{number}"

    def prefix(self, number):
        """Return the beginning of a command that runs in the namespace of a site."""
        return ["ip", "netns", "exec", self.name(number)]

    def __enter__(self):
        try:
            for number, host in enumerate(self.hosts):
                _ip("netns", "add", self.name(number))
                self._in(number, "link", "set", "lo", "up")
                self._in(number, "addr", "add", f"{host}/32", "dev", "lo")
            for first, second in self.links:
                ends = f"to-{second}", "type", "veth", "peer", "name", f"to-{first}", "netns", self.name(second)
                self._in(first, "link", "add", *ends)
                self.mend((first, second))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        for number in range(self.count):
            subprocess.run(["ip", "netns", "del", self.name(number)], capture_output=True)

    def cut(self, link):
        """Take a link down."""
        self._in(link[0], "link", "set", f"to-{link[1]}", "down")

    def mend(self, link):
        """Take a link up again; its routes went with it."""
        for here, there in (link, link[::-1]):
            self._in(here, "link", "set", f"to-{there}", "up")
        for here, there in (link, link[::-1]):
            device = f"to-{there}", "src", self.hosts[here]
            self._in(here, "route", "replace", f"{self.hosts[there]}/32", "dev", *device)

    def _in(self, number, *words):
        _ip("-n", self.name(number), *words)


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
