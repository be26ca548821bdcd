"""What the project promises about its own shape: public names, and imports that point one way."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import lessbits
from lessbits.config.settings import STEP_SIZES
from lessbits.engines.options import RunKeywords, RunOptions
from lessbits.methods.registry import BUILT_IN, find_method
from lessbits.report.text import LETTERS
from lessbits.studies.options import CompareKeywords, CompareOptions
from lessbits.tuning.options import TuneKeywords, TuneOptions

SOURCE = Path(lessbits.__file__).parent

# A layer may import itself and what stands before it.
LAYERS = [
    {"version", "errors"},
    {"_internal"},
    {"datasets", "networks", "quantizers", "theory"},
    {"problems", "codecs", "faults"},
    {"methods"},
    {"engines"},
    {"tuning"},
    {"config"},
    {"report"},
    {"studies", "training"},
    {"sklearn", "experiments", "torch", "neural"},
    {"cli"},
    {"__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lessbits":
            parts = node.module.split(".")
            yield from ([parts[1]] if len(parts) > 1 else [alias.name for alias in node.names])


def test_imports_point_one_way():
    seen = set()
    for path in SOURCE.rglob("*.py"):
        here = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if here == "__init__":
            continue
        for there in imports_of(path):
            seen.add((here, there))
            assert RANK[there] <= RANK[here], f"{path.name} imports lessbits.{there}"
            if RANK[there] == RANK[here]:
                assert here == there, f"{path.name} imports lessbits.{there}, which stands beside {here}, not below it"
    assert ("methods", "quantizers") in seen  # the walk sees something
    # Numbers in, numbers out.
    assert {there for here, there in seen if here == "theory"} == {"_internal", "errors", "theory"}


def importers_of(text):
    return {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if text in path.read_text(encoding="utf-8")}


def test_only_what_carries_bytes_by_mpi_imports_mpi4py():
    assert importers_of("mpi4py import") == {"engines/distributed/mpi.py", "training/mpi.py"}


def test_only_the_package_torch_imports_pytorch():
    importers = importers_of("import torch") | importers_of("from torch")
    assert "torch/gossip.py" in importers
    assert {path.split("/")[0] for path in importers} == {"torch"}


def test_without_pytorch_the_package_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import lessbits.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "pip install 'lessbits[torch]'" in done.stderr.splitlines()[-1]


def test_every_layer_exists():
    names = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert names == set(RANK)


def test_public_names_can_be_used():
    assert "simulate" in lessbits.__all__
    assert "register_method" in lessbits.__all__
    assert list(lessbits.__all__) == sorted(lessbits.__all__)
    for name in lessbits.__all__:
        assert getattr(lessbits, name) is not None


def test_the_api_page_lists_every_public_name():
    page = (SOURCE.parents[1] / "docs" / "api.md").read_text(encoding="utf-8").split("## Theory")[0]
    listed = re.findall(r"^::: lessbits\.([\w.]+)\.(\w+)$", page, re.MULTILINE)
    for module, name in listed:
        assert getattr(importlib.import_module(f"lessbits.{module}"), name) is getattr(lessbits, name)
    assert sorted(name for _, name in listed) == sorted(set(lessbits.__all__) - {"__version__", "theory"})


@pytest.mark.parametrize(
    ("options", "keywords", "functions"),
    [
        (RunOptions, RunKeywords, (lessbits.simulate, lessbits.run_mpi)),
        (TuneOptions, TuneKeywords, (lessbits.tune,)),
        (CompareOptions, CompareKeywords, (lessbits.compare,)),
    ],
)
def test_options_are_listed_once(options, keywords, functions):
    hints = {name: hint for name, hint in get_type_hints(options).items() if name != "return"}
    assert get_type_hints(keywords) == hints
    for function in functions:
        assert set(hints) <= set(inspect.signature(function).parameters)
    for name in hints:
        assert f"        {name}: " in options.__doc__


def test_every_step_size_has_a_flag():
    named = {size.name for name in BUILT_IN for size in find_method(name).step_sizes}
    assert named == set(STEP_SIZES)


def test_reports_write_step_sizes_with_their_letters():
    letters = {size.name: size.letter for name in BUILT_IN for size in find_method(name).step_sizes}
    assert {name: LETTERS[name] for name in letters} == {name: letter or name for name, letter in letters.items()}


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import lessbits, sys; print([name for name in ('jax', 'numpy', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_few_modules_stand_at_the_top():
    assert {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"} == {"errors", "version"}


def test_source_files_stay_short():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
