"""A site that does nothing but change: what it says of itself, for the tests of the live page."""

from typing import Any


def neighbour(site: str, state: str = "connected", **facts: Any) -> dict[str, Any]:
    usual = {"why": "", "round": 11, "epoch": 1, "iteration": 12, "sent_bytes": 1000, "received_bytes": 900}
    usual |= {"estimate": 0.02, "heard_seconds": 0.2, "patience_seconds": 10.0, "fingerprint": "3f9a 11c2 77de 0a1b"}
    return {"site": site, "state": state, **usual, **facts}


class Site:
    """Returns the facts that it has; a test changes them."""

    def __init__(self, **facts: Any) -> None:
        usual = {"site": "berlin", "run": "ward-7", "mode": "lockstep", "state": "running", "message": "all are here"}
        usual |= {"iteration": 12, "iterations": 5000, "estimate": 3.2e-2, "until": 1e-6, "loss": 0.31}
        usual |= {"sent_bytes": 2000, "received_bytes": 1800, "seconds": 1.0}
        usual |= {"neighbours": [neighbour("paris"), neighbour("rome")]}
        self.facts = {**usual, "events": [{"seconds": 0.5, "text": "paris connected"}], **facts}

    def __call__(self) -> dict[str, Any]:
        return dict(self.facts)

    def change(self, **facts: Any) -> None:
        """Be one second later, with these facts."""
        self.facts = {**self.facts, "seconds": self.facts["seconds"] + 1.0, **facts}
