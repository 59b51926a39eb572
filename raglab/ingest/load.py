"""Documents from anywhere: a folder of Markdown, text, HTML, PDF and Word files.

Every file either loads or is listed with the reason in plain words, and one bad file never stops
the rest.  `convert.py` makes text of a file's bytes; here is what stands around it: which files
are read, once each, and what the documents are called.

Left out: folders that a link leads to, hidden files, archives, mail, slides and sheets.
"""

from __future__ import annotations

import os
import stat
import textwrap
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from raglab.ingest.convert import CONVERTERS, MEGABYTE, clean, convert, over
from raglab.types import Document, RagLabError

OTHER_KIND = "not a kind that the lab reads: md, txt, html, pdf, docx"
INSTALL = 'pip install -c constraints.txt -e ".[docs]"'


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not read, and why, with the mend: "is encrypted: save it without ..."."""

    path: str  # below the folder
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a folder gave: documents and skipped files, both in order of path."""

    documents: tuple[Document, ...]
    skipped: tuple[Skipped, ...]


def load_folder(folder: Path | str, *, progress: bool = False, max_megabytes: float = 20) -> Loaded:
    """Every file below a folder that can be read, and the list of those that cannot.

    max_megabytes: larger files are listed, and Word files that unpack to more.
    """
    from tqdm.auto import tqdm

    root = Path(folder)
    if not root.is_dir():
        raise RagLabError(f"{root} is not a folder: give the folder that holds the documents")
    files, skipped = _walk(root)
    documents: dict[str, Document] = {}
    seen: dict[tuple[int, int], str] = {}
    for path in tqdm(files, desc="reading", unit="file", disable=not progress):
        name = _name(path, root)
        try:
            _check_link(path, root, seen)
            documents[name] = _read(path, name, max_megabytes)
        except Exception as error:
            skipped.append(Skipped(name, _reason(error)))
    named, taken = _with_ids(documents)
    return Loaded(named, tuple(sorted(skipped + taken, key=lambda each: each.path)))


def load_file(path: Path | str, *, max_megabytes: float = 20) -> Document:
    """One file, its name without the ending for an id; RagLabError says why it cannot be read."""
    path = Path(path)
    try:
        document = _read(path, _name(path, path.parent), max_megabytes)
    except Exception as error:
        raise RagLabError(f"{path}: {_reason(error)}") from error
    (document,), _ = _with_ids({path.name: document})
    return document


def left_out(loaded: Loaded, most: int = 5) -> str:
    """The first skipped files with their reasons, those of the lab's own kinds first."""
    if not loaded.skipped:
        return ""
    listed = sorted(loaded.skipped, key=lambda each: each.reason == OTHER_KIND)
    lines = [f"  {each.path}: {each.reason}" for each in listed[:most]]
    if len(listed) > most:
        lines.append(f"  and {len(listed) - most} more: load_folder(folder).skipped lists all")
    return "\n".join([f"{len(listed)} of its files were left out:", *lines])


def _walk(root: Path) -> tuple[list[Path], list[Skipped]]:
    """The files below a folder, links last, so that a file is read under its own name."""
    files: list[Path] = []
    skipped: list[Skipped] = []

    def closed(error: OSError) -> None:
        skipped.append(Skipped(_name(Path(error.filename), root), _reason(error)))

    for here, folders, names in os.walk(root, onerror=closed):
        folders[:] = [each for each in folders if not _hidden(each)]
        for each in folders:
            if os.path.islink(path := Path(here, each)):
                reason = "is a link to a folder, which is not followed: load that folder itself"
                skipped.append(Skipped(_name(path, root), reason))
        files += [Path(here, each) for each in names if not _hidden(each)]
    return sorted(files, key=lambda path: (path.is_symlink(), _name(path, root))), skipped


def _hidden(name: str) -> bool:
    """Dot files, and the notes that Word leaves beside an open document."""
    return name.startswith((".", "~$"))


def _name(path: Path, root: Path) -> str:
    """The path below the folder. What its bytes spell wrongly is written as a question mark."""
    return os.fsencode(path.relative_to(root).as_posix()).decode("utf-8", "replace")


def _check_link(path: Path, root: Path, seen: dict[tuple[int, int], str]) -> None:
    """Refuses a link out of the folder, and the second name of a file: links may make several."""
    try:
        found = path.stat()
    except OSError as error:
        if path.is_symlink() and not isinstance(error, PermissionError):
            raise RagLabError("is a link that leads nowhere: remove it, or mend it") from error
        raise
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise RagLabError("is a link that leads out of the folder: copy the file into it")
    name = _name(path, root)
    first = seen.setdefault((found.st_dev, found.st_ino), name)
    if first != name and found.st_ino:  # some disks number no files
        raise RagLabError(f"is the same file as {first}, by a link: it is read once")


def _read(path: Path, name: str, max_megabytes: float) -> Document:
    """A document whose id is empty where the file gives none, and whose title may be."""
    ending, limit = path.suffix.lower(), int(max_megabytes * MEGABYTE)
    if ending not in CONVERTERS:
        raise RagLabError(OTHER_KIND)
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):  # a pipe would never end
        raise RagLabError("is not a file that can be read: remove it")
    if found.st_size > limit:
        raise RagLabError(over(found.st_size, limit))
    document = convert(path.read_bytes(), ending, limit)
    text = clean(document.text)
    if not text.strip():
        raise RagLabError("holds no text")
    return replace(
        document,
        doc_id=clean(document.doc_id),
        text=text,
        title=" ".join(clean(document.title).split()),
        source=clean(document.source) or name,
    )


def _reason(error: Exception) -> str:
    """Why a file was not read, in a line, and the mend."""
    match error:
        case RagLabError():
            reason = str(error)
        case ImportError():
            reason = f"needs {error.name}: {INSTALL}"
        case FileNotFoundError():
            reason = "is not there: see how its name is spelt"
        case PermissionError():
            reason = "may not be opened: give yourself the right to read it"
        case OSError(strerror=str(why)):
            reason = f"cannot be opened ({why}): see that its disk is there"
        case RecursionError():
            reason = "is nested too deeply: save it as plain text"
        case _:
            said = f"{type(error).__name__}: {error}"
            reason = f"cannot be read: open it and save it again, for it seems damaged ({said})"
    return textwrap.shorten(clean(reason), 300, placeholder=" ...")


def _with_ids(documents: dict[str, Document]) -> tuple[tuple[Document, ...], list[Skipped]]:
    """Ids and titles from the paths, where the files gave none; the second of an id is listed.

    An id is the path without its ending, or with it where two files would share one.
    """
    short = {
        name: document.doc_id or PurePosixPath(name).with_suffix("").as_posix()
        for name, document in documents.items()
    }
    count = Counter(short.values())
    taken: dict[str, str] = {}
    named, skipped = [], []
    for name, document in sorted(documents.items()):
        doc_id = document.doc_id or (name if count[short[name]] > 1 else short[name])
        first = taken.setdefault(doc_id, name)
        if first == name:
            title = document.title or PurePosixPath(name).stem
            named.append(replace(document, doc_id=doc_id, title=title))
        else:
            reason = f"its id {doc_id!r} is that of {first} too: change one of them"
            skipped.append(Skipped(name, reason))
    return tuple(named), skipped
