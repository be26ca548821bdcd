"""What the project promises about its own shape: public names, and imports that point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import lessbits

SOURCE = Path(lessbits.__file__).parent

# A layer may import itself and what stands before it.
LAYERS = [
    {"version", "errors"},
    {"_internal"},
    {"datasets", "networks", "quantizers", "theory"},
    {"problems", "codecs"},
    {"methods"},
    {"engines"},
    {"tuning"},
    {"config"},
    {"report"},
    {"sklearn", "experiments"},
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
            if RANK[there] == RANK[here] and RANK[here] == RANK["problems"]:
                assert here == there, (
                    f"{path.name} imports lessbits.{there}: problems, networks and quantizers are apart"
                )
    assert ("methods", "quantizers") in seen  # the walk sees something
    assert not {there for here, there in seen if here == "theory"} - {"errors"}  # numbers in, numbers out


def test_only_the_mpi_engine_imports_mpi4py():
    importers = [path.name for path in SOURCE.rglob("*.py") if "mpi4py import" in path.read_text(encoding="utf-8")]
    assert importers == ["mpi.py"]


def test_every_layer_exists():
    names = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")} - {"__init__"}
    assert names == set(RANK)


def test_public_names_are_exact_and_sorted():
    assert lessbits.__all__ == ["__version__", *sorted(lessbits._HOME)]
    for name in lessbits.__all__:
        assert getattr(lessbits, name) is not None
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for node in block.body for alias in node.names}
    assert typed == set(lessbits._HOME)


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import lessbits, sys; print([name for name in ('jax', 'numpy', 'scipy', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_source_files_stay_short():
    for path in SOURCE.rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path.name
