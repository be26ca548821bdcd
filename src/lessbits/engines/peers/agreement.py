"""When the sites of a run end: all in the same iteration, without anybody who decides.

With n sites, each site counts for how many iterations it and all others, as far as news has come, have been below the
target: its own count is one more than the lowest that it and its neighbours had. A count that falls to zero anywhere
reaches every site within n iterations.

A site whose count is n has *agreed*: every site was below the target at one time. From then on it changes nothing: a
link that fails keeps its dual, since a reset would move x away from the solution, and nobody is let in. When the count
is 2n, all sites had agreed in the same iteration, and all end now. If one had not, because a link of it failed at the
last moment, its low count has come here before, this site no longer agrees, and all go on.
"""

from collections.abc import Iterable

from lessbits.engines.peers.edge import Edge
from lessbits.engines.peers.options import SiteOptions
from lessbits.engines.peers.protocol import NEVER


class Agreement:
    """What a site knows of whether all are below the target.

    Args:
        options: How the run goes.
        sites: The number of sites in this site's roster.

    Attributes:
        streak: For how many iterations, as far as this site has heard, all sites have been below the target.
        sites: The most sites that this site has heard of: those who have no part in an addition keep an old roster.
        without: Neighbours that took no part when this site agreed; None as long as it does not.
    """

    def __init__(self, options: SiteOptions, sites: int) -> None:
        self.options, self.sites = options, sites
        self.streak = 0
        self.without: list[str] | None = None
        self.told = False  # whether a neighbour has said that it has ended

    @property
    def agreed(self) -> bool:
        """Whether all sites were below the target at one time, so that nothing is changed any more."""
        return self.streak >= self.sites

    @property
    def ended(self) -> bool:
        """Whether the run has ended because all sites are below the target.

        A neighbour that says so is believed only by a site that has agreed: who is wrong, or lies, does not end the run
        of a site that is far from its target.
        """
        return self.agreed and (self.options.alone or self.told or self.streak >= 2 * self.sites)

    def update(self, below: bool, edges: Iterable[Edge], missing: list[str]) -> None:
        """Count an iteration.

        Args:
            below: Whether this site is below the target, and no link of it is about to be reset.
            edges: The links of this site.
            missing: The neighbours that take no part now.
        """
        if self.options.until is None:
            return
        heard = [] if self.options.alone else [edge.heard for edge in edges if edge.live]
        self.sites = max([self.sites, *(each.sites for each in heard)])
        below = below or self.agreed
        self.streak = 1 + min([self.streak, *(each.streak for each in heard)]) if below else 0
        if not self.agreed:
            self.without = None
        elif self.without is None:
            self.without = missing
        self.told = not self.options.alone and any(edge.heard.stop != NEVER for edge in edges)
