"""Rows that are members of each other's families: what one has found, another tries too.

So no method is worse in the table than a special case of it, or than the same method under another name.
"""

from lessbits.tuning.estimates import Choice


def choice_of(found):
    """The choice of a cell."""
    return Choice(**{name: found[name] for name in ("method", "quantizer", "messages", "corrected") if name in found})


def _as_found(cell):
    return choice_of(cell), cell["sizes"]


def _gossip_of_lead(lead):
    """LEAD is gossip with broadcast messages, the corrected step and θ = γ/(2η)."""
    sizes = {"theta": lead["sizes"]["gamma"] / (2 * lead["sizes"]["eta"])}
    sizes |= {name: lead["sizes"][name] for name in ("eta", "alpha")}
    return Choice("primal-dual", lead["quantizer"], "broadcast", True), sizes


def _lead_of_gossip(cell):
    """The other way round, where it holds; `fading` quantizers are ours."""
    if cell["quantizer"].startswith("fading") or not _is_corrected(cell):
        return None
    sizes = {name: cell["sizes"][name] for name in ("eta", "alpha") if name in cell["sizes"]}
    sizes |= {"gamma": 2 * sizes["eta"] * cell["sizes"]["theta"]} if sizes else {}
    return Choice("lead", cell["quantizer"]), sizes


def _is_corrected(cell):
    """Whether it is gossip as LEAD, which `accelerated` without momentum is too."""
    return (cell.get("messages") == "broadcast" and cell.get("corrected")) or cell["sizes"].get("momentum") == 0


def _accelerated(found):
    """Corrected gossip is `accelerated` without momentum."""
    choice, sizes = found
    return Choice("accelerated", choice.quantizer), {**sizes, "momentum": 0.0}


def _uncompressed(found):
    choice, sizes = found
    return choice._replace(quantizer="float32"), {**sizes, "alpha": 1.0}


def _motef_of_beer(beer):
    return Choice("motef", beer["quantizer"]), {**beer["sizes"], "momentum": 0.0}


def _beer_of_motef(motef):
    """MoTEF without momentum."""
    sizes = {name: motef["sizes"][name] for name in ("gamma", "eta", "alpha")}
    return None if motef["sizes"]["momentum"] else (Choice("beer", motef["quantizer"]), sizes)


KIN = {  # of a row: where its members are found, and how they are read
    "gossip": (("gossip-practical", _as_found), ("lead", _gossip_of_lead)),
    "lead": tuple((name, _lead_of_gossip) for name in ("gossip", "gossip-practical", "accelerated")),
    "uncompressed": (
        ("gossip", lambda cell: _uncompressed(_as_found(cell))),
        ("lead", lambda cell: _uncompressed(_gossip_of_lead(cell))),
    ),
    "accelerated": (("lead", lambda cell: _accelerated(_gossip_of_lead(cell))),),
    "apapc": (("uncompressed", lambda cell: _accelerated(_as_found(cell)) if _is_corrected(cell) else None),),
    "motef": (("beer", _motef_of_beer),),
    "beer": (("motef", _beer_of_motef),),
}


def kin_of(row, found):
    """Return choices and step sizes that other rows of a column have found, and that are members of a row's family."""
    kin = (as_member(found[name]) for name, as_member in KIN.get(row, ()) if found.get(name))
    return [each for each in kin if each is not None]
