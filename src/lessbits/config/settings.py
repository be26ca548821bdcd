"""The settings of a run, given as command-line flags or in a TOML file. Both use the same names."""

import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lessbits.errors import LARGEST_CONDITION, LARGEST_SEED, InputError, check_kind, check_name, check_path, shown
from lessbits.methods.registry import BUILT_IN

FORMAT = "lessbits-settings-1"
LARGEST_NETWORK = 10**7
LARGEST_COUNT = 2**31 - 1  # counters in the compiled loop are 32-bit integers
STEP_SIZES = ("theta", "eta", "gamma", "alpha", "epsilon", "momentum", "decay")


def _setting(default: Any, group: str, text: str, chosen: str | None = None, **limits: Any) -> Any:
    """Describe a setting. `chosen` describes the value that is used if the setting is None."""
    shown = default if chosen is None else chosen
    text = text if shown is None else f"{text}; default: {shown}"
    return Field(default, description=text, json_schema_extra={"group": group}, **limits)


class Settings(BaseModel):
    """The settings of a run. Settings that are None are chosen when the run is built, and its trace stores the choice.

    Every setting is a keyword argument, and has the name and the meaning of a flag of `lessbits run`.

    >>> Settings(network="star", nodes=100, until=1e-3).command("run")
    'lessbits run --nodes 100 --network star --until 0.001'
    """

    # Strict: the text "16" is not a number of nodes. No setting has a use for NaN or infinity.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    problem: str = _setting("consensus", "Problem", "consensus, least-squares, logistic or softmax")
    nodes: int | None = _setting(
        None, "Problem", "number of nodes", "16, or what the network file or the sites say", le=LARGEST_NETWORK
    )
    dim: int | None = _setting(None, "Problem", "dimension of x", "250, or what the data say", ge=1, le=LARGEST_COUNT)
    condition: float = _setting(
        100.0, "Problem", "condition number κ of a random least-squares problem", "100", ge=1, le=LARGEST_CONDITION
    )
    samples: int | None = _setting(None, "Problem", "samples per node of a random least-squares problem", "dim", ge=1)
    problem_seed: int | None = _setting(
        None, "Problem", "seed of a random problem and of the split", "that of the run", ge=0, le=LARGEST_SEED
    )

    data: str | None = _setting(
        None,
        "Data",
        "CSV, Parquet, .npz or libsvm file (CSV and libsvm also compressed), the name of a data set such as w1a or "
        "breast-cancer, or one file per node, such as part-{node}.csv",
    )
    target: str | None = _setting(None, "Data", "column to predict, of a CSV or Parquet file")
    site: str | None = _setting(None, "Data", "column that names the site of each row; every site is a node")
    drop: str | None = _setting(
        None, "Data", "columns of a CSV or Parquet file that are not used, separated by commas, such as patient,date"
    )
    test: str | None = _setting(
        None, "Data", "samples to test on: a file like that of --data, or the share to hold out, such as 0.2"
    )
    features: int | None = _setting(None, "Data", "number of features", "as many as the file uses", ge=1)
    normalize: bool = _setting(False, "Data", "scale every sample to length 1", "no")
    scale: bool = _setting(
        False, "Data", "divide every column by its standard deviation over all samples, before --normalize", "no"
    )
    regularization: float | None = _setting(
        None, "Data", "λ of the regularizer (λ/2)‖x‖²", "1 / number of samples", ge=0
    )
    split: str = _setting(
        "sorted", "Data", "how samples without sites are split over nodes: iid, sorted, dirichlet:A or uneven:R"
    )

    network: str = _setting(
        "ring",
        "Network",
        "ring, path, star, complete, torus, torus:RxC, hypercube, random-regular:DEGREE, erdos-renyi:P, "
        "watts-strogatz:K:P, barbell, or a file of edges or weights",
    )
    weights: str = _setting(
        "metropolis", "Network", "link weights: metropolis, unit, max-degree, or given (by the file)"
    )
    network_seed: int | None = _setting(
        None, "Network", "seed of a random network", "that of the run", ge=0, le=LARGEST_SEED
    )

    method: str = _setting(
        "primal-dual",
        "Method",
        "primal-dual (Algorithm 1 of the paper), tree (sums up a spanning tree), accelerated, or a competitor: "
        + ", ".join(list(BUILT_IN)[3:]),
    )
    option: str | None = _setting(
        None,
        "Method",
        "gradients: A dual (primal-dual, ssda, msda), B full, C stochastic, D variance-reduced",
        "B; A for ssda and msda, D for gt-svrg and vr-diana",
    )
    messages: str | None = _setting(
        None,
        "Method",
        "of primal-dual: independent (the paper's), broadcast or edge (half the bits)",
        "independent",
    )
    corrected: bool = _setting(
        False, "Method", "of primal-dual: move the iterate with the dual variable, as LEAD does", "no"
    )
    quantizer: str | None = _setting(
        None,
        "Method",
        "exact, rand-K, dit-K, dither:S, subtractive:S, ternary, natural, rand-K+dit-K, or fading:SPACING:FACTOR; "
        "for choco and tree also grid:F, top-K, sign, scaled-dit-K",
        "dit-4; grid:10 for tree; exact for methods that send vectors uncompressed",
        min_length=1,
    )
    stepsizes: Literal["theory", "practical"] = _setting(
        "theory",
        "Method",
        "how step sizes that are not given are chosen: theory (mostly proven) or practical (larger, tested in a short "
        "run)",
    )
    theta: float | None = _setting(
        None, "Method", "step size θ of the dual variable (primal-dual, ssda, msda)", "see --stepsizes", gt=0
    )
    eta: float | None = _setting(
        None, "Method", "step size η of the gradient; 0 turns choco into pure gossip", "see --stepsizes", ge=0
    )
    gamma: float | None = _setting(None, "Method", "step size γ of gossip (choco, lead)", "see --stepsizes", gt=0)
    alpha: float | None = _setting(
        None,
        "Method",
        "step size α of the memory; for qdgd, the weight of the gradient",
        "1/(1+ω); lead and qdgd: see --stepsizes",
        gt=0,
    )
    epsilon: float | None = _setting(None, "Method", "step size ε of qdgd", "see --stepsizes", gt=0)
    momentum: float | None = _setting(None, "Method", "momentum β (accelerated, ssda, msda)", "as proven", ge=0, lt=1)
    decay: float | None = _setting(
        None, "Method", "shrink steps as 1/(1 + decay·k) (dgd, choco), or by QDGD's powers", "0; 0.01 for qdgd", ge=0
    )
    step_sizes: dict[str, float] = _setting(
        {}, "Method", "step sizes of a registered method that have no setting of their own, by name", "none"
    )
    batch_size: int = _setting(1, "Method", "samples in a stochastic gradient, for options C and D", ge=1)

    iterations: int = _setting(10_000, "Run", "largest number of iterations", ge=1, le=LARGEST_COUNT)
    until: float | None = _setting(None, "Run", "stop as soon as the goal is at most this", ge=0)
    goal: str = _setting(
        "error",
        "Run",
        "what --until is compared with: error (mean of ‖x_i - x*‖²), suboptimality, consensus, loss, or gradient "
        "(squared norm, plus the disagreement; usual with --scoring loss)",
    )
    scoring: Literal["solution", "loss", "off"] = _setting(
        "solution",
        "Run",
        "how records are scored: solution (against x*, which is computed first), loss (without x*: loss and gradient), "
        "or off (only bits are counted, and ranks exchange nothing but messages)",
    )
    record_every: int | None = _setting(
        None, "Run", "iterations between two records", "at most 10 000 records per run", ge=1
    )
    seed: int = _setting(0, "Run", "seed of all random numbers", ge=0, le=LARGEST_SEED)
    precision: Literal[32, 64] = _setting(64, "Run", "bits of a floating-point number in the computation: 32 or 64")
    engine: Literal["simulate", "mpi"] = _setting(
        "simulate", "Engine", "how messages are sent: simulate (one process), or mpi (real processes)"
    )
    ranks: int | None = _setting(
        None, "Engine", "processes to start with --engine mpi", "one per core", ge=1, le=LARGEST_NETWORK
    )
    code: Literal["entropy", "fixed"] = _setting(
        "entropy", "Engine", "how levels are written as bytes: entropy (fewest bits), or fixed (a fixed width)"
    )
    encode: bool = _setting(
        False, "Engine", "make the simulator encode every message, rather than only compute its length", "no"
    )
    latency: float | None = _setting(None, "Run", "seconds per exchange, for simulated time", ge=0)
    bandwidth: float | None = _setting(None, "Run", "bits per second on a link, for simulated time", gt=0)

    def __init__(self, **given: Any) -> None:
        """Check the settings. Raise an `InputError` for unknown names and invalid values."""
        for name in given:
            check_name("setting", name, type(self).model_fields)
        try:
            super().__init__(**{name: _plain(value) for name, value in given.items()})
        except ValidationError as error:
            raise self._explain(error) from None

    @field_validator("test", mode="before")
    @classmethod
    def _share_as_text(cls, given: Any) -> Any:
        """Let a TOML file say 0.2 without quotes."""
        return f"{given:g}" if isinstance(given, float) else given

    def __str__(self) -> str:
        """Return the same text as `repr`."""
        return repr(self)

    def __repr_args__(self) -> Any:
        """Return the settings that differ from the defaults."""
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        return [entry for entry in super().__repr_args__() if entry[1] != defaults[str(entry[0])]]

    @classmethod
    def read(cls, given: Mapping[str, Any], file: str | Path | None = None) -> Self:
        """Return the settings of a TOML file and of flags. Flags take precedence.

        Args:
            given: Values of flags, by name of the setting; None for a flag that was not given.
            file: The TOML file, if any.
        """
        check_kind("what was given", given, Mapping, "map names of settings to values")
        values = {} if file is None else _read_toml(check_path("the settings file", file))
        return cls(**{**values, **{name: value for name, value in given.items() if value is not None}})

    @classmethod
    def _explain(cls, error: ValidationError) -> InputError:
        """Return an error that explains the first mistake in one line."""
        first = error.errors()[0]
        name, given = str(first["loc"][0]), first["input"]
        field = cls.model_fields[name]
        if first["type"] == "literal_error" and isinstance(given, str):
            check_name(name, given, get_args(field.annotation))
        words = f"{given:g}" if isinstance(given, float) else shown(given)
        wanted = first["msg"].replace("Input should be", "it must be").replace("greater than or equal to", "at least")
        wanted = wanted.replace("less than or equal to", "at most").replace("String should", "it must")
        leave_out = ", or be left out" if field.default is None else ""
        return InputError(f"{name} is {words}, but {wanted}{leave_out}")

    def updated(self, **changes: Any) -> Self:
        """Return a copy with some settings changed. Raise an `InputError` for unknown names and invalid values."""
        self.read({**dict(self), **changes})  # `model_copy` alone checks nothing
        return self.model_copy(update=changes)

    def refuse(self, names: Iterable[str], reason: str) -> None:
        """Raise an `InputError` if one of these settings differs from its default: it would have no effect."""
        for name in names:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise InputError(f"{name} was given, but {reason}: leave it out")

    def given_step_sizes(self) -> dict[str, float]:
        """Return all step sizes that are not None, by name."""
        named = {name: getattr(self, name) for name in STEP_SIZES}
        return {name: size for name, size in named.items() if size is not None} | self.step_sizes

    def with_step_sizes(self, sizes: Mapping[str, float]) -> Self:
        """Return a copy with these step sizes; those without a setting of their own go to `step_sizes`."""
        check_kind("the step sizes", sizes, Mapping, "map names to numbers")
        own = {name: size for name, size in sizes.items() if name in STEP_SIZES}
        others = {name: size for name, size in sizes.items() if name not in STEP_SIZES}
        return self.updated(**own, step_sizes={**self.step_sizes, **others})

    def command(self, name: str) -> str:
        """Return the command line with these settings; those equal to their default are left out.

        Args:
            name: The command, such as "run".
        """
        if not isinstance(name, str):
            raise InputError(f"the command is {shown(name)}, but it must be a name such as 'run'")
        words = ["lessbits", name]
        for setting, field in type(self).model_fields.items():
            value, flag = getattr(self, setting), f"--{setting.replace('_', '-')}"
            # Registered methods, whose step sizes are a dict, are not known to the command line.
            if setting not in self.model_fields_set or value == field.default or isinstance(value, dict):
                continue
            number = isinstance(value, float)
            words += [flag] if value is True else [flag, f"{value:.4g}" if number else shlex.quote(str(value))]
        return " ".join(words)

    def to_toml(self) -> str:
        """Return the settings as TOML text that `read` accepts. Settings that are None are left out."""
        import tomli_w

        return tomli_w.dumps({"format": FORMAT, **self.model_dump(exclude_none=True)})


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python; a longer array stays, and is refused."""
    return value.item() if hasattr(value, "item") and getattr(value, "size", 1) == 1 else value


def _read_toml(file: Path) -> dict[str, Any]:
    """Return the settings in a file. The format version may be missing, as in files written by hand."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the settings file {file} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also a number of 5000 digits, and 5000 brackets
        raise InputError(f"the settings file {file} is no TOML: {error}") from None
    if (given := values.pop("format", FORMAT)) != FORMAT:
        raise InputError(
            f"the settings file {file} has the format {shown(given)}, but this version of lessbits reads "
            f"{FORMAT!r}: take the version that wrote it, or leave the format out and check every setting"
        )
    return values
