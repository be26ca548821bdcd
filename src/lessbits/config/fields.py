"""The settings of a run, one by one: name, default, meaning and limits."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from lessbits.errors import LARGEST_CONDITION, LARGEST_SEED
from lessbits.methods.registry import BUILT_IN

LARGEST_NETWORK = 10**7
LARGEST_COUNT = 2**31 - 1  # counters in the compiled loop are 32-bit integers


def setting(default: Any, group: str, text: str, chosen: str | None = None, **limits: Any) -> Any:
    """Describe a setting. `chosen` describes the value that is used if the setting is None."""
    shown = default if chosen is None else chosen
    text = text if shown is None else f"{text}; default: {shown}"
    return Field(default, description=text, json_schema_extra={"group": group}, **limits)


class Fields(BaseModel):
    """The fields of `Settings`, which checks them."""

    problem: str = setting("consensus", "Problem", "consensus, least-squares, logistic or softmax")
    nodes: int | None = setting(
        None, "Problem", "number of nodes", "16, or what the network file or the sites say", le=LARGEST_NETWORK
    )
    dim: int | None = setting(None, "Problem", "dimension of x", "250, or what the data say", ge=1, le=LARGEST_COUNT)
    condition: float = setting(
        100.0, "Problem", "condition number κ of a random least-squares problem", "100", ge=1, le=LARGEST_CONDITION
    )
    samples: int | None = setting(None, "Problem", "samples per node of a random least-squares problem", "dim", ge=1)
    problem_seed: int | None = setting(
        None, "Problem", "seed of a random problem and of the split", "that of the run", ge=0, le=LARGEST_SEED
    )

    data: str | None = setting(
        None,
        "Data",
        "CSV, Parquet, .npz or libsvm file (CSV and libsvm also compressed), the name of a data set such as w1a or "
        "breast-cancer, or one file per node, such as part-{node}.csv",
    )
    target: str | None = setting(None, "Data", "column to predict, of a CSV or Parquet file")
    site: str | None = setting(None, "Data", "column that names the site of each row; every site is a node")
    ignore: str | None = setting(
        None, "Data", "columns of a CSV or Parquet file that are not used, separated by commas, such as patient,date"
    )
    test: str | None = setting(
        None, "Data", "samples to test on: a file like that of --data, or the share to hold out, such as 0.2"
    )
    features: int | None = setting(None, "Data", "number of features", "as many as the file uses", ge=1)
    normalize: bool = setting(False, "Data", "scale every sample to length 1", "no")
    scale: bool = setting(
        False, "Data", "divide every column by its standard deviation over all samples, before --normalize", "no"
    )
    regularization: float | None = setting(
        None, "Data", "λ of the regularizer (λ/2)‖x‖²", "1 / number of samples", ge=0
    )
    split: str = setting(
        "sorted", "Data", "how samples without sites are split over nodes: iid, sorted, dirichlet:A or uneven:R"
    )

    network: str = setting(
        "ring",
        "Network",
        "ring, path, star, complete, torus, torus:RxC, hypercube, random-regular:DEGREE, erdos-renyi:P, "
        "watts-strogatz:K:P, geometric:RADIUS, barbell, or a file of edges or weights",
    )
    weights: str = setting(
        "metropolis", "Network", "link weights: metropolis, unit, max-degree, or given (by the file)"
    )
    network_seed: int | None = setting(
        None, "Network", "seed of a random network", "that of the run", ge=0, le=LARGEST_SEED
    )

    faults: str | None = setting(
        None, "Faults", "TOML file that says which links are silent, fail or are slow, and which nodes come and go"
    )
    drop: float | None = setting(None, "Faults", "probability that a link is silent, in each iteration", ge=0, le=0.999)
    lose: float | None = setting(None, "Faults", "probability that a message is lost, and sent again", ge=0, le=0.999)
    delay: str | None = setting(
        None, "Faults", "iterations by which messages are late, drawn for each: such as 3 or 1-5"
    )

    method: str = setting(
        "primal-dual",
        "Method",
        "primal-dual (the paper's), edge-dual (for faults), tree (sums up a tree), newton-tree (and of Hessians), "
        "twin-tree, all-gather and newton-gather (fewer exchanges), accelerated, proximal, scheduled, or a competitor: "
        + ", ".join(list(BUILT_IN)[10:]),
    )
    option: str | None = setting(
        None,
        "Method",
        "gradients: A dual (primal-dual, ssda, msda), B full, C stochastic, D variance-reduced",
        "B; A for ssda and msda, D for gt-svrg and vr-diana",
    )
    messages: str | None = setting(
        None,
        "Method",
        "of primal-dual: independent (the paper's), broadcast or edge (half the bits)",
        "independent",
    )
    corrected: bool = setting(
        False, "Method", "of primal-dual: move the iterate with the dual variable, as LEAD does", "no"
    )
    quantizer: str | None = setting(
        None,
        "Method",
        "exact, float32, rand-K, dit-K, dither:S, subtractive:S, ternary, natural, rand-K+dit-K, or "
        "fading:SPACING:FACTOR; "
        "for choco, trees, gathers, c-gt, beer, motef and ef21 also grid:F, top-K, sign, scaled-dit-K",
        "dit-4; grid:10 for tree, twin-tree and all-gather, grid:100 for newton-tree and newton-gather; exact for "
        "methods that send whole vectors",
        min_length=1,
    )
    stepsizes: Literal["theory", "practical"] = setting(
        "theory",
        "Method",
        "how step sizes that are not given are chosen: theory (mostly proven) or practical (larger, tested in a short "
        "run)",
    )
    theta: float | None = setting(
        None,
        "Method",
        "step size θ of the dual variable (primal-dual, edge-dual, ssda, msda, opapc)",
        "see --stepsizes",
        gt=0,
    )
    eta: float | None = setting(
        None, "Method", "step size η of the gradient; 0 turns choco into pure gossip", "see --stepsizes", ge=0
    )
    gamma: float | None = setting(
        None,
        "Method",
        "step size γ of gossip (choco, lead, c-gt, beer, motef) or of the iterate (dore), or gain of the correction "
        "(edge-dual)",
        "see --stepsizes",
        ge=0,
    )
    alpha: float | None = setting(
        None,
        "Method",
        "step size α of the memory; for qdgd, the weight of the gradient",
        "1/(1+ω); lead and qdgd: see --stepsizes",
        gt=0,
    )
    epsilon: float | None = setting(
        None, "Method", "step size ε of qdgd, or share of the error that dore sends again", "see --stepsizes", ge=0
    )
    momentum: float | None = setting(
        None, "Method", "momentum β (accelerated, ssda, msda, motef, opapc)", "as proven", ge=0, lt=1
    )
    decay: float | None = setting(
        None, "Method", "shrink steps as 1/(1 + decay·k) (dgd, choco), or by QDGD's powers", "0; 0.01 for qdgd", ge=0
    )
    probability: float | None = setting(
        None,
        "Method",
        "probability p of an exchange after a local step (scaffnew, locodl), or that the anchor moves (adiana)",
        "see --stepsizes",
        gt=0,
        le=1,
    )
    step_sizes: dict[str, float] = setting(
        {}, "Method", "step sizes of a registered method that have no setting of their own, by name", "none"
    )
    local_steps: int = setting(1, "Method", "gradient steps between two exchanges (edge-dual)", ge=1)
    chunks: int | None = setting(
        None,
        "Method",
        "messages that a vector is cut into, so that all levels of a tree send at once (tree, newton-tree, twin-tree)",
        "the fastest for --bandwidth and --latency; 1 without these",
        ge=1,
    )
    batch_size: int = setting(1, "Method", "samples in a stochastic gradient, for options C and D", ge=1)

    iterations: int = setting(10_000, "Run", "largest number of iterations", ge=1, le=LARGEST_COUNT)
    until: float | None = setting(None, "Run", "stop as soon as the goal is at most this", ge=0)
    goal: str = setting(
        "error",
        "Run",
        "what --until is compared with: error (mean of ‖x_i - x*‖²), suboptimality, consensus, loss, or gradient "
        "(squared norm, plus the disagreement; usual with --scoring loss)",
    )
    scoring: Literal["solution", "loss", "off"] = setting(
        "solution",
        "Run",
        "how records are scored: solution (against x*, which is computed first), loss (without x*: loss and gradient), "
        "or off (only bits are counted, and ranks exchange nothing but messages)",
    )
    record_every: int | None = setting(
        None, "Run", "iterations between two records", "at most 10 000 records per run", ge=1
    )
    seed: int = setting(0, "Run", "seed of all random numbers", ge=0, le=LARGEST_SEED)
    precision: Literal[32, 64] = setting(64, "Run", "bits of a floating-point number in the computation: 32 or 64")
    engine: Literal["simulate", "mpi"] = setting(
        "simulate", "Engine", "how messages are sent: simulate (one process), or mpi (real processes)"
    )
    ranks: int | None = setting(
        None, "Engine", "processes to start with --engine mpi", "one per core", ge=1, le=LARGEST_NETWORK
    )
    code: Literal["entropy", "fixed"] = setting(
        "entropy", "Engine", "how levels are written as bytes: entropy (fewest bits), or fixed (a fixed width)"
    )
    encode: bool = setting(
        False, "Engine", "make the simulator encode every message, rather than only compute its length", "no"
    )
    latency: float | None = setting(None, "Run", "seconds per exchange, for simulated time", ge=0)
    bandwidth: float | None = setting(None, "Run", "bits per second on a link, for simulated time", gt=0)
