"""The text of one file: Markdown, plain text, HTML, PDF or Word, each from its bytes.

All of them end as Markdown or as plain text, so that the chunkers find headings where there are
any.  Well-kept libraries do the work: BeautifulSoup and markdownify for HTML, mammoth (docx to
HTML) for Word, pypdf for PDF, charset_normalizer where a text is not UTF-8.  They come with
`pip install -c constraints.txt -e ".[docs]"` and are imported when a file first needs them.

A file is data: nothing in it is run, and nothing that it points to is fetched.  HTML is parsed and
never rendered; pictures are never opened; a Word file whose XML declares a DTD (where entities
stand that reach for other files, or grow without end) is refused before it is parsed.

Left out: OCR, the layout of a PDF's tables and columns, the text of pictures.
"""

from __future__ import annotations

import codecs
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import IO
from xml.etree import ElementTree
from xml.parsers.expat import ExpatError, ParserCreate
from zipfile import ZipFile

from raglab.ingest.corpus import first_heading, parse_markdown
from raglab.types import Document, RagLabError

MEGABYTE = 10**6
MARKS = (  # UTF-32's first: its little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
LONG_LIST = 1000
NOT_TEXT = "not text, or in an encoding that cannot be told: save it as UTF-8"
OLD_WORD = b"\xd0\xcf\x11\xe0"  # how .doc files begin, and encrypted .docx files


def convert(raw: bytes, ending: str, limit: int) -> Document:
    """A document without id and source, for its file gives those; RagLabError says why not.

    `limit` is the most bytes that a packed file may unpack to.
    """
    with _quiet():
        return CONVERTERS[ending](raw, limit)


def clean(text: str) -> str:
    r"""Newlines as \n, no NUL, no half of a character (a PDF's tables can hold one).

    >>> clean("one\r\ntwo\rthree\0")
    'one\ntwo\nthree'
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def over(size: int, limit: int, when: str = "") -> str:
    """
    >>> over(50_000_000, 20_000_000)
    '50 MB, over the limit of 20 MB: split it, or raise max_megabytes'
    """
    large = f"{math.ceil(size / MEGABYTE)} MB{when}"
    return f"{large}, over the limit of {limit / MEGABYTE:g} MB: split it, or raise max_megabytes"


# -- text -----------------------------------------------------------------------------------------


def decode(raw: bytes, declared: str = "") -> str:
    """Text, its encoding told by the file's mark; else UTF-8; else as declared; else as guessed.

    UTF-8 with a few broken bytes is still UTF-8: each of them becomes a replacement character.
    """
    for name, errors in _encodings(raw, declared):
        try:
            text = raw.decode(name, errors)
        except (UnicodeError, LookupError):
            continue
        controls = len(re.findall(r"[\0-\x08\x0e-\x1a\x1c-\x1f]", text))
        if controls > len(text) / 10:
            break
        return clean(text)
    raise RagLabError(NOT_TEXT)


def _encodings(raw: bytes, declared: str) -> Iterator[tuple[str, str]]:
    """Encodings to try in turn, and what to do with bytes that do not fit."""
    for mark, name in MARKS:
        if raw.startswith(mark):
            yield name, "strict"
            return
    yield "utf-8", "strict"
    if b"\0" in raw:  # a program or a picture: no other encoding of text holds zero bytes
        return
    text = raw.decode("utf-8", "replace")
    if len(re.findall(r"[^\0-\x7f]", text)) > 10 * text.count("\N{REPLACEMENT CHARACTER}"):
        yield "utf-8", "replace"
    if declared:
        # What calls itself Latin-1 is Windows-1252, as every browser takes it.
        known = declared.lower() in {"iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii"}
        yield "cp1252" if known else declared, "strict"
    from charset_normalizer import from_bytes

    # Many encodings fit a Western text that is short, and the guess then falls on a rare one. So
    # the common one is tried alone first: the guess finds other scripts to be a mess in it.
    best = from_bytes(raw, cp_isolation=["cp1252"]).best() or from_bytes(raw).best()
    if best:
        yield best.encoding, "strict"


def _markdown(raw: bytes, limit: int) -> Document:
    return parse_markdown(decode(raw))


def _text(raw: bytes, limit: int) -> Document:
    text = decode(raw).strip()
    return Document("", text, first_heading(text))


# -- HTML and Word --------------------------------------------------------------------------------


def _html(raw: bytes, limit: int) -> Document:
    from bs4.dammit import EncodingDetector

    return _page(decode(raw, EncodingDetector.find_declared_encoding(raw, is_html=True) or ""))


def _page(html: str, title: str = "") -> Document:
    """HTML as Markdown, without scripts, styles and pictures that have no address of their own."""
    from bs4 import BeautifulSoup
    from bs4.element import Declaration, ProcessingInstruction
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    named = (tag.get_text(" ", strip=True) for tag in (soup.h1, soup.title) if tag)
    title = next(filter(None, named), title)
    for tag in soup(["script", "style", "title"]):
        tag.decompose()
    for picture in soup("img"):
        if str(picture.get("src") or "data:").startswith("data:"):
            picture.replace_with(str(picture.get("alt") or ""))
    # markdownify counts an item's number from the list's start, and writes a cell for each column
    # that one spans: lists and spans without end would take time and memory without end.
    for numbered in soup("ol"):
        if len(numbered("li", recursive=False)) > LONG_LIST:
            numbered.name = "ul"
    for cell in soup(["td", "th"]):
        if len(str(cell.get("colspan", ""))) > 2:
            del cell["colspan"]
    for aside in soup(string=lambda s: isinstance(s, Declaration | ProcessingInstruction)):
        aside.extract()
    converter = MarkdownConverter(
        heading_style="ATX", escape_asterisks=False, escape_underscores=False,
        table_infer_header=True,
    )  # fmt: skip
    return Document("", str(converter.convert_soup(soup)).strip(), title)


def _docx(raw: bytes, limit: int) -> Document:
    import mammoth

    if raw.startswith(OLD_WORD):
        raise RagLabError("is encrypted, or an old .doc: save it as .docx without a password")
    with ZipFile(BytesIO(raw)) as archive:
        parts = archive.infolist()
        # A part gives no more bytes than it states here, so the sum cannot be a lie.
        size = sum(part.file_size for part in parts)
        if size > limit:
            raise RagLabError(over(size, limit, " when unpacked"))
        for part in parts:
            with archive.open(part) as stream:
                if _declares_dtd(stream):
                    raise RagLabError("its XML declares a DTD, as no Word file does: save it anew")
        title = _core_title(archive)
    done = mammoth.convert_to_html(
        BytesIO(raw),
        convert_image=mammoth.images.img_element(lambda image: {}),
        include_embedded_style_map=False,
        external_file_access=False,
    )
    return _page(done.value, title)


def _declares_dtd(stream: IO[bytes]) -> bool:
    """Whether a part is XML with a DTD. It stands before the first element: no more is read."""
    seen: list[bool] = []
    parser = ParserCreate()
    parser.StartDoctypeDeclHandler = lambda *_: seen.append(True)
    parser.StartElementHandler = lambda *_: seen.append(False)
    with suppress(ExpatError):  # not XML: a picture, say
        while not seen and (block := stream.read(65536)):
            parser.Parse(block)
    return bool(seen and seen[0])


def _core_title(archive: ZipFile) -> str:
    try:
        root = ElementTree.fromstring(archive.read("docProps/core.xml"))
    except (KeyError, ElementTree.ParseError):
        return ""
    return root.findtext("{http://purl.org/dc/elements/1.1/}title") or ""


# -- PDF ------------------------------------------------------------------------------------------


def _pdf(raw: bytes, limit: int) -> Document:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError

    reader = PdfReader(BytesIO(raw))
    if reader.is_encrypted:
        try:
            opened = bool(reader.decrypt(""))  # many are locked against changes alone
        except DependencyError:
            opened = False
        if not opened:
            raise RagLabError("is encrypted: save it without a password")
    texts = [page.extract_text().strip() for page in reader.pages]
    if not texts:
        raise RagLabError("holds no page that can be read: open it and save it again")
    text = clean("\n\n".join(filter(None, texts)))
    if not text and any(page.images.keys() for page in reader.pages):
        raise RagLabError("holds pictures of text and no text: run OCR on it first")
    title = reader.metadata.title if reader.metadata else None
    return Document("", text, str(title or ""))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the libraries' remarks on odd files: each file loads, or is listed with a reason."""
    log = logging.getLogger("pypdf")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


CONVERTERS: dict[str, Callable[[bytes, int], Document]] = {
    ".md": _markdown,
    ".txt": _text,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": _docx,
}
