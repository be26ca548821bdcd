"""Algorithm 1, sums over a tree, their competitors, and how nodes talk."""

from lessbits.methods.accelerated import Accelerated
from lessbits.methods.baseline import Baseline
from lessbits.methods.choco import Choco
from lessbits.methods.dgd import Dgd
from lessbits.methods.diana import Diana
from lessbits.methods.extra import Extra
from lessbits.methods.gradient_tracking import AtcTracking, GradientTracking
from lessbits.methods.gt_svrg import GtSvrg
from lessbits.methods.lead import Lead
from lessbits.methods.msda import Msda
from lessbits.methods.nids import Nids
from lessbits.methods.primal_dual import PrimalDual
from lessbits.methods.qdgd import Qdgd
from lessbits.methods.ssda import Ssda
from lessbits.methods.tree import Tree
from lessbits.methods.vr_diana import VrDiana

BASELINES: dict[str, type[Baseline]] = {
    kind.name: kind
    for kind in (
        Tree, Accelerated, Dgd, Qdgd, Choco, Extra, GradientTracking, AtcTracking, Nids, Lead, GtSvrg, Diana, VrDiana,
        Ssda, Msda,
    )
}  # fmt: skip
METHODS = (PrimalDual.name, *BASELINES)

__all__ = [
    "BASELINES",
    "METHODS",
    "Accelerated",
    "AtcTracking",
    "Baseline",
    "Choco",
    "Dgd",
    "Diana",
    "Extra",
    "GradientTracking",
    "GtSvrg",
    "Lead",
    "Msda",
    "Nids",
    "PrimalDual",
    "Qdgd",
    "Ssda",
    "Tree",
    "VrDiana",
]
