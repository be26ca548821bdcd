"""Settings: one list of names for flags and TOML, checked at the door."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessbits import InputError, Settings
from lessbits.report.text import step_sizes_in_words


def test_flags_win_over_the_file_and_the_file_over_defaults(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('theta = 2.5\nnetwork = "star"\nnodes = 7\n')
    settings = Settings.read({"theta": 0.5, "nodes": None}, file)
    assert (settings.theta, settings.network, settings.nodes, settings.problem) == (0.5, "star", 7, "consensus")


def test_a_flag_may_switch_off_what_the_file_switches_on(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("normalize = true\n")
    assert Settings.read({}, file).normalize is True
    assert Settings.read({"normalize": False}, file).normalize is False


@pytest.mark.parametrize("text", ["", "a b", 'quo"te', "back\\slash", "tab\tnew\nline", "\x7f\x00", "żółw 🐢", "#no=1"])
def test_any_text_survives_the_round_trip_through_toml(tmp_path, text):
    settings = Settings(data=text)
    file = tmp_path / "settings.toml"
    file.write_text(settings.to_toml(), encoding="utf-8")
    assert Settings.read({}, file) == settings


@given(
    theta=st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    until=st.floats(min_value=0, allow_infinity=False),
    seed=st.integers(0, 2**64 - 1),
    normalize=st.booleans(),
)
def test_any_number_survives_the_round_trip_through_toml(theta, until, seed, normalize):
    settings = Settings(theta=theta, until=until, seed=seed, normalize=normalize)
    written = tomllib.loads(settings.to_toml())
    assert written.pop("format") == "lessbits-settings-1"
    assert Settings(**written) == settings


def test_numbers_are_written_as_python_writes_them():
    lines = Settings(theta=0.1 + 0.2, eta=1e-300, until=5e-324, seed=2**64 - 1).to_toml().splitlines()
    assert {"theta = 0.30000000000000004", "eta = 1e-300", "until = 5e-324", f"seed = {2**64 - 1}"} <= set(lines)


@pytest.mark.parametrize("given", ["lessbits-settings-2", "lessbits-trace-1", 1])
def test_a_format_that_is_not_known_is_refused(tmp_path, given):
    file = tmp_path / "settings.toml"
    file.write_text(Settings(theta=1.0).to_toml().replace('"lessbits-settings-1"', repr(given)))
    with pytest.raises(InputError, match=f"has the format {given!r}, but this version of lessbits reads") as error:
        Settings.read({}, file)
    assert "\n" not in str(error.value)


def test_the_format_is_no_setting():
    with pytest.raises(InputError, match="unknown setting 'format'"):
        Settings.read({"format": "lessbits-settings-1"})


def test_settings_left_open_are_left_out_of_the_toml():
    written = tomllib.loads(Settings(theta=1.0).to_toml())
    assert written["theta"] == 1.0
    assert "eta" not in written


def test_a_whole_number_is_good_enough_for_a_real_one():
    assert Settings.read({"theta": 1}).theta == 1.0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('quantiser = "dit-4"', "unknown setting 'quantiser': did you mean 'quantizer'?"),
        ("batch-size = 4", "unknown setting 'batch-size': did you mean 'batch_size'?"),
        ('nodes = "16"', "nodes is '16', but it must be a whole number, or be left out"),
        ("nodes = true", "nodes is True, but it must be a whole number"),
        ("iterations = 1.5", "iterations is 1.5, but it must be a whole number"),
        ('theta = "big"', "theta is 'big', but it must be a number"),
        ("theta = 0", "theta is 0, but it must be greater than 0, or be left out"),
        ("eta = -0.5", "eta is -0.5, but it must be at least 0"),
        ("alpha = nan", "alpha is nan, but it must be a finite number"),
        ("until = inf", "until is inf, but it must be a finite number"),
        ("until = -1e-3", "until is -0.001, but it must be at least 0"),
        ("iterations = 0", "iterations is 0, but it must be at least 1"),
        ("iterations = 3000000000", "iterations is 3000000000, but it must be at most 2147483647"),
        ("dim = 0", "dim is 0, but it must be at least 1"),
        ("batch_size = -3", "batch_size is -3, but it must be at least 1"),
        ("record_every = 0", "record_every is 0, but it must be at least 1"),
        ("seed = -1", "seed is -1, but it must be at least 0"),
        ("latency = -1.0", "latency is -1, but it must be at least 0"),
        ("bandwidth = 0.0", "bandwidth is 0, but it must be greater than 0"),
        ("regularization = -0.1", "regularization is -0.1, but it must be at least 0"),
        ("condition = 0.5", "condition is 0.5, but it must be at least 1"),
        ("precision = 16", "precision is 16, but it must be 32 or 64"),
        ('stepsizes = "theroy"', "unknown stepsizes 'theroy': did you mean 'theory'?"),
        ("stepsizes = 3", "stepsizes is 3, but it must be 'theory' or 'practical'"),
        ("normalize = 1", "normalize is 1, but it must be true or false"),
        ('[problem]\nname = "consensus"', "problem is {'name': 'consensus'}, but it must be a text"),
        ("network = [1, 2]", "network is [1, 2], but it must be a text"),
        ("theta = ", "is no TOML"),
        ("theta = 1\ntheta = 2", "is no TOML"),
    ],
)
def test_mistakes_in_the_file_get_one_line(tmp_path, line, says):
    file = tmp_path / "settings.toml"
    file.write_text(line)
    with pytest.raises(InputError) as error:
        Settings.read({}, file)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_long_mistake_is_cut(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(f"nodes = {'9' * 400}")
    with pytest.raises(InputError) as error:
        Settings.read({}, file)
    assert len(str(error.value)) < 200


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"absent\.toml cannot be read: No such file"):
        Settings.read({}, tmp_path / "absent.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Settings.read({}, tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is no TOML"):
        Settings.read({}, binary)


def test_every_setting_is_described_with_its_default():
    for name, field in Settings.model_fields.items():
        assert len(field.description or "") > 10, name
        assert field.json_schema_extra["group"] in ("Problem", "Data", "Network", "Faults", "Method", "Run", "Engine")
        if isinstance(field.default, str):
            assert field.description.endswith(f"default: {field.default}"), name


def test_settings_check_what_they_are_updated_with():
    settings = Settings(nodes=5)
    assert settings.updated(nodes=6).nodes == 6
    with pytest.raises(InputError, match="setting"):
        settings.updated(bogus=1)
    with pytest.raises(InputError, match="nodes is 'x'"):
        settings.updated(nodes="x")


def test_step_sizes_of_registered_methods_are_kept(tmp_path):
    settings = Settings().with_step_sizes({"eta": 0.5, "rho": 0.1})
    assert settings.given_step_sizes() == {"eta": 0.5, "rho": 0.1}
    file = tmp_path / "settings.toml"
    file.write_text(settings.to_toml(), encoding="utf-8")
    assert Settings.read({}, file).given_step_sizes() == {"eta": 0.5, "rho": 0.1}
    assert step_sizes_in_words(settings.model_dump()) == "η = 0.5, rho = 0.1"
