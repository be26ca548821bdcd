"""The settings of a run, given as command-line flags or in a TOML file. Both use the same names."""

import shlex
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, get_args

from pydantic import ConfigDict, ValidationError, field_validator

from lessbits._internal.wording import in_plain_words
from lessbits.config.fields import Fields
from lessbits.errors import InputError, check_kind, check_name, check_path, shown

FORMAT = "lessbits-settings-1"
STEP_SIZES = ("theta", "eta", "gamma", "alpha", "epsilon", "momentum", "decay", "probability")


class Settings(Fields):
    """The settings of a run. Settings that are None are chosen when the run is built, and its trace stores the choice.

    Every setting is a keyword argument, and has the name and the meaning of a flag of `lessbits run`.

    >>> Settings(network="star", nodes=100, until=1e-3).command("run")
    'lessbits run --nodes 100 --network star --until 0.001'
    """

    # Strict: the text "16" is not a number of nodes. No setting has a use for NaN or infinity.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

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
        leave_out = ", or be left out" if field.default is None else ""
        return InputError(f"{name} is {words}, but {in_plain_words(first['msg'])}{leave_out}")

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
            # A method that is made for its target is another one if digits are cut.
            short = isinstance(value, float) and (setting != "until" or float(f"{value:.4g}") == value)
            words += [flag] if value is True else [flag, f"{value:.4g}" if short else shlex.quote(str(value))]
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
