"""Everything that a run can be told, as flags or as a TOML file: one list of names for both."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lessbits.errors import InputError, check_name


def _setting(default: Any, group: str, text: str) -> Any:
    return Field(default, description=text, json_schema_extra={"group": group})


class Settings(BaseModel):
    """The settings of a run; what is None is chosen, and the run says what it chose."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: str = _setting("consensus", "Problem", "consensus, least-squares, logistic or softmax")
    nodes: int | None = _setting(None, "Problem", "number of nodes, where no file decides it (16)")
    dim: int | None = _setting(None, "Problem", "dimension of x, where no data decide it (250)")
    data: str | None = _setting(None, "Problem", "libsvm file, or the name of a data set such as w1a or breast-cancer")
    features: int | None = _setting(None, "Problem", "number of features, where the file does not show it")
    normalize: bool = _setting(False, "Problem", "scale every sample to unit length")
    regularization: float | None = _setting(None, "Problem", "λ of the regularizer (λ/2)‖x‖² (1 / number of samples)")
    split: str = _setting("sorted", "Problem", "samples to nodes: iid, sorted, dirichlet:A or uneven:R")
    condition: float = _setting(100.0, "Problem", "κ of a random least-squares problem")
    samples: int | None = _setting(None, "Problem", "samples a node of a random least-squares problem (dim)")
    problem_seed: int | None = _setting(None, "Problem", "seed of the problem and its split (the run's)")

    network: str = _setting(
        "ring",
        "Network",
        "ring, path, star, complete, torus[:RxC], hypercube, random-regular[:DEGREE], erdos-renyi[:P], "
        "watts-strogatz[:K:P], barbell, or a file of edges or weights",
    )
    weights: str = _setting(
        "metropolis", "Network", "link weights: metropolis, unit, max-degree, or given (by the file)"
    )
    network_seed: int | None = _setting(None, "Network", "seed of a random network (the run's)")

    method: str = _setting("primal-dual", "Method", "primal-dual: Algorithm 1 of the paper")
    option: str = _setting("B", "Method", "A dual, B full gradient, C stochastic, D variance-reduced")
    messages: str = _setting("independent", "Method", "independent (the paper's) or broadcast (half the bits)")
    quantizer: str = _setting("dit-4", "Method", "exact, rand-K, dit-K, dither:S, ternary, natural, or rand-K+dit-K")
    stepsizes: Literal["theory", "practical"] = _setting(
        "theory", "Method", "how step sizes that are not given are chosen: theory (proven) or practical (larger)"
    )
    theta: float | None = _setting(None, "Method", "step size θ of the dual variable")
    eta: float | None = _setting(None, "Method", "step size η of the gradient")
    alpha: float | None = _setting(None, "Method", "step size α of the memory (1/(1+ω))")
    batch_size: int = _setting(1, "Method", "samples a gradient of options C and D")

    iterations: int = _setting(10_000, "Run", "iterations at most")
    until: float | None = _setting(None, "Run", "stop when the goal is at most this")
    goal: str = _setting(
        "error", "Run", "what --until looks at: error (mean of ‖x_i - x*‖²), suboptimality or consensus"
    )
    record_every: int | None = _setting(None, "Run", "iterations between records (at most 10 000 records)")
    seed: int = _setting(0, "Run", "seed of all random numbers")
    precision: Literal[32, 64] = _setting(64, "Run", "bits of a floating-point number in the computation")
    latency: float | None = _setting(None, "Run", "seconds an exchange takes, for simulated time")
    bandwidth: float | None = _setting(None, "Run", "bits a second on a link, for simulated time")

    @classmethod
    def read(cls, given: Mapping[str, Any], file: Path | None = None) -> Self:
        """Join a TOML file and flags; flags win."""
        values = {
            **(_read_toml(file) if file else {}),
            **{name: value for name, value in given.items() if value is not None},
        }
        for name in values:
            check_name("setting", name, cls.model_fields)
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            name, wrong = ".".join(map(str, first["loc"])), first["input"]
            raise InputError(f"setting {name} is {wrong!r}, but: {first['msg'].lower()}") from None

    def updated(self, **changes: Any) -> Self:
        """Return the settings with some resolved."""
        return self.model_copy(update=changes)

    def to_toml(self) -> str:
        """Write what `read` reads; settings that are None are left out."""
        lines = []
        for name, value in self.model_dump().items():
            if isinstance(value, bool):
                lines.append(f"{name} = {str(value).lower()}")
            elif isinstance(value, int | float):
                lines.append(f"{name} = {value!r}")
            elif value is not None:
                quoted = value.replace("\\", "\\\\").replace('"', '\\"')
                lines.append(f'{name} = "{quoted}"')
        return "\n".join(lines) + "\n"


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"the settings file {file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the settings file {file} is no TOML: {error}") from None
