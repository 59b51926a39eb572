"""The house itself: pins that agree, imports that run downwards, files that name no machine."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
RAGLAB = ROOT / "raglab"


# -- pins -----------------------------------------------------------------------------------------


def pins(lines: list[str]) -> dict[str, str]:
    """name -> version, of lines such as `numpy==2.4.6`; comments and blanks are passed over."""
    found = {}
    for line in lines:
        if line.strip() and not line.startswith("#"):
            name, _, version = line.partition("==")
            assert re.fullmatch(r"[\w.]+", version), f"{line!r} is not an exact pin"
            found[canonicalize_name(name)] = version
    return found


CONSTRAINTS = pins((ROOT / "constraints.txt").read_text().splitlines())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# A build of torch for CUDA requires these at versions of its own; the CPU build does not.
CUDA = ("nvidia-", "cuda-", "triton")


def required(name: str, *extras: str) -> dict[str, str]:
    """name -> installed version, of all that a distribution requires here, and they in turn."""
    waiting, seen = [(name, extras)], set()
    found = {}
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for needed in map(Requirement, distribution(name).requires or []):
            applies = [
                needed.marker is None or needed.marker.evaluate({"extra": extra})
                for extra in ("", *extras)
            ]
            if any(applies):
                key = canonicalize_name(needed.name)
                found[key] = distribution(key).version
                waiting.append((key, tuple(sorted(needed.extras))))
    return found


def test_every_dependency_is_pinned() -> None:
    extras = PROJECT["optional-dependencies"].values()
    lines = PROJECT["dependencies"] + [line for extra in extras for line in extra]
    assert len(lines) > 20
    for line in lines:
        if line.startswith(PROJECT["name"]):
            continue  # an extra that takes in another one
        needed = Requirement(line)
        pinned = CONSTRAINTS.get(canonicalize_name(needed.name))
        assert pinned, f"{line} has no pin in constraints.txt"
        assert needed.specifier.contains(pinned), f"{line}, but the pin is {pinned}"


def test_all_that_is_installed_for_the_lab_is_pinned() -> None:
    try:
        installed = required(PROJECT["name"], "dev")
    except PackageNotFoundError as error:
        pytest.fail(f"{error.name} is required and not installed: run `make install`")
    installed = {name: v for name, v in installed.items() if not name.startswith(CUDA)}
    assert len(installed) > 100
    off = {
        name: f"installed {version}, pinned {CONSTRAINTS.get(name)}"
        for name, version in installed.items()
        # "2.13.0+cpu" is a local build of the public version 2.13.0.
        if name not in CONSTRAINTS or Version(version).public != CONSTRAINTS[name]
    }
    assert off == {}


def test_conda_users_get_the_same_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (by_pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    assert {"-c constraints.txt", "-e .[docs]"} <= set(by_pip)
    named = pins([line for line in by_pip if not line.startswith("-")])
    assert len(named) > 5
    assert named == {name: CONSTRAINTS.get(name) for name in named}


def test_ci_runs_the_readme_s_own_test_command() -> None:
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "make test" in commands
    assert re.search(r"\bmake test\b", (ROOT / "README.md").read_text())
    assert re.search(r"^test:", (ROOT / "Makefile").read_text(), re.MULTILINE)


# -- imports --------------------------------------------------------------------------------------

HEAVY = ("torch", "faiss", "sentence_transformers", "transformers", "anthropic", "numpy")
HEAVY += ("sklearn", "scipy")
DISPLAY = ("ipywidgets", "plotly", "anywidget", "IPython")


def test_import_is_instant() -> None:
    code = (
        "import sys, time; started = time.perf_counter(); import raglab; "
        "print(time.perf_counter() - started); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    seconds = []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        taken, loaded = done.stdout.splitlines()
        assert loaded == "[]"
        seconds.append(float(taken))
    assert statistics.median(seconds) < 0.5


def test_the_whole_lab_imports_no_heavy_library() -> None:
    """They are imported where they are first used."""
    heavy = [name for name in HEAVY if name != "numpy"]
    code = f"import sys, raglab.lab, raglab.cli; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def imports(source: str) -> set[str]:
    """Every module that a source imports, at its top or inside a function.

    `from a import b` may mean the module a.b, so both names stand in the set.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name their module whole"
            assert node.module
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def within(modules: set[str], *packages: str) -> set[str]:
    """Those of the modules that are one of the packages, or lie in one."""
    return {m for m in modules if any(m == p or m.startswith(f"{p}.") for p in packages)}


IMPORTS = {
    path.relative_to(RAGLAB).as_posix(): imports(path.read_text(encoding="utf-8"))
    for path in sorted(RAGLAB.rglob("*.py"))
}


def under(folder: str) -> Iterator[tuple[str, set[str]]]:
    found = {name: modules for name, modules in IMPORTS.items() if name.startswith(folder)}
    assert found, f"no module under {folder}"
    yield from found.items()


def test_imports_are_found() -> None:
    source = "import a.b\nfrom c import d\ndef f():\n    import e\n    from raglab import lab\n"
    assert imports(source) == {"a.b", "c", "c.d", "e", "raglab", "raglab.lab"}
    assert within(imports(source), "a", "raglab.lab", "d") == {"a.b", "raglab.lab"}
    assert "raglab.types" in IMPORTS["pipeline.py"]


def test_only_the_top_knows_the_lab() -> None:
    top = {"lab.py", "cli.py", "evalcli.py", "gatecli.py", "benchmarks.py", "doctor.py"}
    top |= {"__init__.py"}
    knows = {name for name, modules in IMPORTS.items() if within(modules, "raglab.lab")}
    assert knows <= top
    assert "cli.py" in knows


def test_ingest_knows_nothing_of_what_comes_after() -> None:
    for name, modules in under("ingest/"):
        assert not within(modules, "raglab.retrieve", "raglab.answer"), name


def test_views_know_what_was_recorded_and_nothing_else() -> None:
    known = ("raglab.types", "raglab.trace", "raglab.files", "raglab.prices", "raglab.views")
    # The Explorer is the one view that is bound to a live pipeline: it may turn and ask it.
    bound = (*known, "raglab.explore", "raglab.learn", "raglab.pipeline", "raglab.kit")
    bound += ("raglab.evaluate", "raglab.fates")  # to look up the evidence of a golden question
    for name, modules in under("views/"):
        ours = within(modules, "raglab") - {"raglab"}
        live = name.startswith("views/explorer")
        # What an evaluation found is recorded too, as values of its own.
        judged = name in ("views/sankey.py", "views/scoreview.py")
        may = bound if live else (*known, "raglab.evaluate") if judged else known
        assert ours == within(ours, *may), name


def test_what_plays_with_a_pipeline_draws_nothing() -> None:
    for folder in ("explore/", "learn/"):
        for name, modules in under(folder):
            assert not within(modules, "raglab.views", "raglab.lab"), name


def test_the_pipeline_knows_no_concrete_stage() -> None:
    stages = ("raglab.ingest", "raglab.retrieve", "raglab.answer", "raglab.lab", "raglab.views")
    assert not within(IMPORTS["pipeline.py"], *stages)
    assert not within(IMPORTS["recorder.py"], *stages)


def test_what_draws_stays_under_views() -> None:
    draws = {name for name, modules in IMPORTS.items() if within(modules, *DISPLAY)}
    assert draws
    assert {name for name in draws if not name.startswith("views/")} == set()


# -- files ----------------------------------------------------------------------------------------

# Spelt in halves, so that this file does not hold them. Paths of one machine, and hosts that a
# reader's own installer knows better.
FOREIGN = tuple(
    a + b
    for a, b in (
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("py", "pi.org"),
        ("pythonho", "sted.org"),
        ("conda.anac", "onda.org"),
        ("registry.np", "mjs.org"),
    )
)


def foreign(text: str) -> list[str]:
    return [name for name in FOREIGN if name in text]


def test_no_file_names_a_machine_or_a_registry() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone: git lists no files here")
    names = [name for name in listed.stdout.split("\0") if (ROOT / name).is_file()]
    assert {"README.md", "Makefile", "raglab/types.py"} <= set(names)
    found = {name: foreign((ROOT / name).read_bytes().decode("utf-8", "replace")) for name in names}
    assert {name: words for name, words in found.items() if words} == {}


def test_what_is_foreign_would_be_found() -> None:
    for name in FOREIGN:
        assert foreign(f"see https://{name}x") == [name]
