"""Documents from anywhere: every file loads, or is listed with a reason that names the mend.

The files are made here: PDFs by fpdf2 and pypdf, Word files by python-docx.
"""

from __future__ import annotations

import codecs
import io
import os
import random
import re
import socket
import struct
import sys
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docx
import pypdf
import pytest
from fpdf import FPDF

from raglab.ingest.corpus import parse_markdown
from raglab.ingest.load import (
    INSTALL,
    OTHER_KIND,
    Loaded,
    Skipped,
    left_out,
    load_file,
    load_folder,
)
from raglab.lab import read_corpus
from raglab.types import Document, RagLabError

# -- making files ---------------------------------------------------------------------------------


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def one(folder: Path) -> Document:
    loaded = load_folder(folder)
    assert loaded.skipped == ()
    (document,) = loaded.documents
    return document


def reason(folder: Path, name: str) -> str:
    """Why this file was skipped; the other files of the folder loaded."""
    loaded = load_folder(folder)
    (skipped,) = loaded.skipped
    assert skipped.path == name
    return skipped.reason


def pdf(*pages: str, title: str = "") -> bytes:
    made = FPDF()
    made.set_font("Helvetica", size=12)
    if title:
        made.set_title(title)
    for page in pages:
        made.add_page()
        made.multi_cell(0, text=page)
    return bytes(made.output())


def png() -> bytes:
    def part(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" + b"\x10\x20\x30" * 2 + b"\0" + b"\x40\x50\x60" * 2)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")


def encrypted(content: bytes, user: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt(user, "owner", algorithm="RC4-128")
    stream = io.BytesIO()
    writer.write(stream)
    return stream.getvalue()


def word(build: Callable[[Any], object]) -> bytes:
    made = docx.Document()
    build(made)
    stream = io.BytesIO()
    made.save(stream)
    return stream.getvalue()


def repacked(content: bytes, **changed: str | bytes) -> bytes:
    """A Word file with the main part changed, or a part "added" beside the others."""
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, changed.get(Path(name).stem, old.read(name)))
        if "added" in changed:
            new.writestr("word/added.xml", changed["added"])
    return stream.getvalue()


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        pytest.fail("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)


# -- every kind loads -----------------------------------------------------------------------------


def test_markdown_keeps_its_card(tmp_path: Path) -> None:
    card = (
        "id: refunds\ntitle: Refunds\nsource: Finance\nupdated: 2026-01-02\ngroups: [hr]\nby: Ines"
    )
    write(tmp_path, "a.md", f"---\r\n{card}\r\n---\r\n# Title\r\n\r\nFive days.\r\n")
    assert one(tmp_path) == Document(
        "refunds", "# Title\n\nFive days.", "Refunds", "Finance", "2026-01-02", ("hr",),
        {"by": "Ines"},
    )  # fmt: skip


def test_text_is_named_by_its_path_and_undated(tmp_path: Path) -> None:
    write(tmp_path, "sub/Notes.TXT", "One.\r\nTwo.\rThree\0.\n")
    assert one(tmp_path) == Document(
        "sub/Notes", "One.\nTwo.\nThree.", "Notes", "sub/Notes.TXT", "", (), {}
    )


def test_html_becomes_markdown(tmp_path: Path) -> None:
    write(
        tmp_path,
        "a.html",
        """<?xml version="1.0"?><!DOCTYPE html><html><head><title>The &amp; title</title>
        <style>p {color: red}</style><script>alert("run")</script></head><body>
        <h2>Limits</h2><p>Set <b>max_retries</b> to 5 * 2.</p>
        <table><tr><td>Plan</td><td>Price</td></tr><tr><td>Team</td><td>9</td></tr></table>
        <img src="https://example.org/a.png" alt="A map"><img src="data:image/png;base64,AAAA">
        <!-- a remark --></body></html>""",
    )
    document = one(tmp_path)
    assert document.title == "The & title"
    assert document.text.splitlines() == [
        "## Limits", "", "Set **max_retries** to 5 * 2.", "",
        "| Plan | Price |", "| --- | --- |", "| Team | 9 |", "",
        "![A map](https://example.org/a.png)",
    ]  # fmt: skip


def test_word_becomes_markdown(tmp_path: Path) -> None:
    def build(made: Any) -> None:
        made.core_properties.title = "In the card"
        made.add_heading("Travel", 1)
        made.add_paragraph("Ask first.")
        made.add_paragraph("by train", style="List Bullet")
        table = made.add_table(2, 2)
        for cell, text in zip(table._cells, ("City", "Cap", "Bonn", "120"), strict=True):
            cell.text = text
        made.add_picture(io.BytesIO(png()))

    write(tmp_path, "a.docx", word(build))
    document = one(tmp_path)
    assert document.title == "Travel"
    assert document.text.splitlines() == [
        "# Travel", "", "Ask first.", "", "* by train", "",
        "| City | Cap |", "| --- | --- |", "| Bonn | 120 |",
    ]  # fmt: skip


def test_the_pages_of_a_pdf_are_joined_by_blank_lines(tmp_path: Path) -> None:
    write(tmp_path, "a.pdf", pdf("First page.", "Second page.", title="A report"))
    assert one(tmp_path).text == "First page.\n\nSecond page."
    assert one(tmp_path).title == "A report"


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.md", "---\ntitle: Card\n---\n# Head", "Card"),
        ("a.md", "text\n# Head", "Head"),
        ("a.txt", "# Head\ntext", "Head"),
        ("a b.txt", "text", "a b"),
        ("a.htm", "<title>Page</title><h1>The <i>first</i>\nhead</h1>", "The first head"),
        ("a.htm", "<title>Page</title><h1></h1><h2>Second</h2>", "Page"),
        ("a.htm", "text", "a"),
        ("a.docx", word(lambda made: made.add_heading("Head", 1)), "Head"),
        ("a.pdf", pdf("text"), "a"),
    ],
)
def test_titles(tmp_path: Path, name: str, content: str | bytes, title: str) -> None:
    write(tmp_path, name, content)
    assert one(tmp_path).title == title


def test_a_word_file_without_a_heading_takes_the_title_of_its_card(tmp_path: Path) -> None:
    def build(made: Any) -> None:
        made.core_properties.title = "In the card"
        made.add_paragraph("text")

    write(tmp_path, "a.docx", word(build))
    assert one(tmp_path).title == "In the card"


def test_names_with_spaces_and_letters_of_all_kinds(tmp_path: Path) -> None:
    write(tmp_path, "Über uns/Ablauf für 2026 – Entwurf.md", "Text.")
    write(tmp_path, "返金.pdf", pdf("text"))
    assert [(d.doc_id, d.source) for d in load_folder(tmp_path).documents] == [
        ("Über uns/Ablauf für 2026 – Entwurf", "Über uns/Ablauf für 2026 – Entwurf.md"),
        ("返金", "返金.pdf"),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("text")
    assert one(tmp_path).doc_id == "caf\N{REPLACEMENT CHARACTER}"


def test_progress_is_shown_when_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a.md", "text")
    load_folder(tmp_path)
    assert capsys.readouterr().err == ""
    load_folder(tmp_path, progress=True)
    assert "reading" in capsys.readouterr().err


# -- encodings ------------------------------------------------------------------------------------

GERMAN = "Gebühr: fünf Euro für die Rückerstattung."


@pytest.mark.parametrize("ending", ["txt", "md", "html"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (b"", "cp1252"),
        (b"", "latin-1"),
    ],
)
def test_encodings(tmp_path: Path, ending: str, mark: bytes, encoding: str) -> None:
    write(tmp_path, f"a.{ending}", mark + GERMAN.encode(encoding))
    assert one(tmp_path).text == GERMAN


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("café", "cp1252"),
        ("It costs 5 € and “quotes” — dash’s", "cp1252"),
        ("Le remboursement est effectué à réception. Où êtes-vous né ? Cœur.", "cp1252"),
        ("Возврат средств занимает пять рабочих дней после запроса.", "cp1251"),
        ("返金は申請後五営業日以内に処理されます。", "shift_jis"),
        ("Zwrot środków następuje w ciągu pięciu dni. Żółć gęślą jaźń", "cp1250"),
    ],
)
def test_encodings_that_nothing_names_are_guessed(tmp_path: Path, text: str, encoding: str) -> None:
    write(tmp_path, "a.txt", text.encode(encoding))
    assert one(tmp_path).text == text


def test_utf8_with_a_broken_byte_stays_utf8(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", (GERMAN * 5).encode() + b"\xff")
    assert one(tmp_path).text == GERMAN * 5 + "\N{REPLACEMENT CHARACTER}"


def test_a_page_s_own_word_for_its_encoding_counts(tmp_path: Path) -> None:
    """A guess takes this line for Western: as a text, it comes out wrong."""
    line = "A visszatérítés öt munkanapig tart. Árvíztűrő tükörfúrógép"
    page = '<meta charset="{}"><p>5 €</p>'
    write(tmp_path, "a.html", b'<meta charset="windows-1250">' + line.encode("cp1250"))
    write(tmp_path, "b.html", page.format("iso-8859-1").encode("cp1252"))
    write(tmp_path, "c.html", page.format("no-such").encode("cp1252"))
    write(tmp_path, "d.txt", line.encode("cp1250"))
    texts = [d.text for d in load_folder(tmp_path).documents]
    assert texts == [line, "5 €", "5 €", line.replace("ű", "û").replace("ő", "õ")]


@pytest.mark.parametrize("ending", ["txt", "md", "html"])
@pytest.mark.parametrize(
    "content",
    [
        png(),
        random.Random(1).randbytes(5000),
        "UTF-16 without its mark".encode("utf-16-le"),
        codecs.BOM_UTF16_LE + b"odd",
        "für\0 uns".encode("cp1252"),  # a guess takes it for UTF-16, in Chinese
    ],
    ids=["picture", "noise", "unmarked", "cut", "zero"],
)
def test_what_is_not_text(tmp_path: Path, ending: str, content: bytes) -> None:
    write(tmp_path, "good.txt", "text")
    write(tmp_path, f"a.{ending}", content)
    assert reason(tmp_path, f"a.{ending}").startswith("not text")


# -- files that cannot be read --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", b""),
        ("a.txt", b" \n\t\n"),
        ("a.md", b"---\ntitle: x\n---\n"),
        ("a.html", b"<title>x</title><script>text</script>"),
        ("a.docx", word(lambda made: made.add_picture(io.BytesIO(png())))),
        ("a.pdf", pdf("")),
    ],
)
def test_files_without_text(tmp_path: Path, name: str, content: bytes) -> None:
    write(tmp_path, name, content)
    assert reason(tmp_path, name) == "holds no text"


def test_a_scanned_pdf(tmp_path: Path) -> None:
    made = FPDF()
    made.add_page()
    made.image(io.BytesIO(png()), w=100)
    write(tmp_path, "scan.pdf", bytes(made.output()))
    says = "holds pictures of text and no text: run OCR on it first"
    assert reason(tmp_path, "scan.pdf") == says


def test_encrypted_pdfs(tmp_path: Path) -> None:
    write(tmp_path, "locked.pdf", encrypted(pdf("secret"), "word"))
    write(tmp_path, "open.pdf", encrypted(pdf("Locked against changes alone."), ""))
    assert reason(tmp_path, "locked.pdf") == "is encrypted: save it without a password"
    (document,) = load_folder(tmp_path).documents
    assert document.text == "Locked against changes alone."


def test_a_pdf_whose_cipher_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AES needs the package cryptography, which is not one of ours."""

    def refuse(*_: object) -> None:
        raise pypdf.errors.DependencyError("cryptography>=3.1 is required for AES algorithm")

    monkeypatch.setattr(pypdf.PdfReader, "decrypt", refuse)
    write(tmp_path, "a.pdf", encrypted(pdf("text"), ""))
    assert reason(tmp_path, "a.pdf") == "is encrypted: save it without a password"


def test_a_pdf_without_pages(tmp_path: Path) -> None:
    stream = io.BytesIO()
    pypdf.PdfWriter().write(stream)
    write(tmp_path, "a.pdf", stream.getvalue())
    assert "holds no page" in reason(tmp_path, "a.pdf")


def test_the_libraries_remarks_are_not_passed_on(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write(tmp_path, "a.html", '<?xml version="1.0"?><page>text</page>')
    assert one(tmp_path).text == "text"
    assert not recwarn.list


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.pdf", b"%PDF-1.7 and then nothing"),
        ("a.pdf", b"no pdf at all"),
        ("a.pdf", pdf("text")[:300]),
        ("a.pdf", b""),
        ("a.docx", b"no zip at all"),
        ("a.docx", word(lambda made: made.add_paragraph("text"))[:-200]),
        ("a.docx", repacked(word(lambda made: None), document="<w:document><cut")),
        ("a.docx", b""),
    ],
)
def test_damaged_files_do_not_stop_the_rest(
    tmp_path: Path, name: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "good.md", "text")
    write(tmp_path, name, content)
    assert re.search("save it again|holds no text", reason(tmp_path, name))
    assert [d.doc_id for d in load_folder(tmp_path).documents] == ["good"]
    assert caplog.records == []  # pypdf has much to say on such files


def test_html_that_breaks_off_gives_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, "a.html", "<!DOCTYPE html><![if IE 6]><p>One <b>two</p></div><p>three")
    assert one(tmp_path).text == "One **two**\n\nthree"


def test_html_nested_without_end(tmp_path: Path) -> None:
    write(tmp_path, "a.html", "<div>" * 50_000 + "deep")
    assert reason(tmp_path, "a.html") == "is nested too deeply: save it as plain text"


def test_html_with_a_list_and_a_span_without_end(tmp_path: Path) -> None:
    write(tmp_path, "a.html", "<ol>" + "<li>x</li>" * 1000 + "</ol>")
    assert one(tmp_path).text.endswith("\n1000. x")
    write(tmp_path, "a.html", "<ol>" + "<li>x</li>" * 1001 + "</ol>")
    assert one(tmp_path).text.endswith("\n* x")
    write(tmp_path, "a.html", "<table><tr><td colspan=1000>x</td></tr></table>")
    assert len(one(tmp_path).text) < 100


def test_old_and_encrypted_word_files(tmp_path: Path) -> None:
    write(tmp_path, "a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + b"\0" * 600)
    assert "save it as .docx without a password" in reason(tmp_path, "a.docx")


def test_files_over_the_limit(tmp_path: Path) -> None:
    with write(tmp_path, "big.txt", "text").open("r+b") as file:
        file.truncate(50_000_000)  # sparse: it takes no room
    says = "50 MB, over the limit of 20 MB: split it, or raise max_megabytes"
    assert reason(tmp_path, "big.txt") == says
    write(tmp_path, "big.txt", "x" * 1001)
    assert len(load_folder(tmp_path, max_megabytes=0.001).skipped) == 1
    write(tmp_path, "big.txt", "x" * 1000)
    assert len(load_folder(tmp_path, max_megabytes=0.001).documents) == 1


def test_a_word_file_that_unpacks_to_more_than_the_limit(tmp_path: Path) -> None:
    bomb = repacked(word(lambda made: made.add_paragraph("text")), added=b" " * 50_000_000)
    assert len(bomb) < 200_000
    write(tmp_path, "bomb.docx", bomb)
    assert reason(tmp_path, "bomb.docx").startswith("51 MB when unpacked, over the limit of 20 MB")
    assert len(load_folder(tmp_path, max_megabytes=60).documents) == 1


def test_front_matter_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path, "good.md", "text")
    write(tmp_path, "a.md", "---\nid: [\n---\ntext")
    assert "mend the lines between the `---`" in reason(tmp_path, "a.md")
    write(tmp_path, "a.md", "---\nupdated: 2026-13-45\n---\ntext")
    assert "mend the lines between the `---`" in reason(tmp_path, "a.md")
    write(tmp_path, "a.md", "---\ngroups: hr\n---\ntext")
    assert "groups must be a list" in reason(tmp_path, "a.md")


def test_front_matter_that_would_spell_out_to_millions(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6)]
    write(tmp_path, "a.md", "---\n" + "\n".join(lines) + "\n---\ntext")
    assert "too large" in reason(tmp_path, "a.md")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("---\nHello\n---\nWorld", "---\nHello\n---\nWorld"),
        ("---\n---\nWorld", "World"),
        ("---\ncontent: x\n2026: y\n---\nWorld", "World"),
        ("One\n\n---\n\nTwo", "One\n\n---\n\nTwo"),
    ],
)
def test_text_between_rules_is_no_card(text: str, content: str) -> None:
    assert parse_markdown(text).text == content


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    """As it is, it could not be written to a file."""
    write(tmp_path, "a.md", '{\n"title": "a \\ud800 b"\n}\ntext')
    assert one(tmp_path).title == "a \N{REPLACEMENT CHARACTER} b"


def test_a_missing_library_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pypdf", "mammoth", "bs4", "charset_normalizer"):
        monkeypatch.setitem(sys.modules, name, None)
    write(tmp_path, "a.docx", word(lambda made: made.add_paragraph("text")))
    write(tmp_path, "b.html", "text")
    write(tmp_path, "c.pdf", pdf("text"))
    write(tmp_path, "d.txt", "für".encode("cp1252"))
    write(tmp_path, "e.md", "für")
    loaded = load_folder(tmp_path)
    assert INSTALL == 'pip install -c constraints.txt -e ".[docs]"'
    assert [(each.path, each.reason) for each in loaded.skipped] == [
        ("a.docx", f"needs mammoth: {INSTALL}"),
        ("b.html", f"needs bs4: {INSTALL}"),
        ("c.pdf", f"needs pypdf: {INSTALL}"),
        ("d.txt", f"needs charset_normalizer: {INSTALL}"),
    ]
    assert [d.doc_id for d in loaded.documents] == ["e"]


# -- nothing is run, nothing is fetched -----------------------------------------------------------

ENTITY = '<!DOCTYPE r [<!ENTITY x SYSTEM "{address}">]>'


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_word_file_cannot_reach_for_another_file(tmp_path: Path, encoding: str) -> None:
    secret = write(tmp_path, ".secret", "the secret")
    made = word(lambda made: made.add_paragraph("PLACE"))
    xml = zipfile.ZipFile(io.BytesIO(made)).read("word/document.xml").decode()
    head, _, body = xml.partition("?>")
    head = head.replace("UTF-8", encoding)
    trick = f"{head}?>{ENTITY.format(address=secret.as_uri())}{body.replace('PLACE', '&x;')}"
    write(tmp_path, "a.docx", repacked(made, document=trick.encode(encoding)))
    assert "declares a DTD" in reason(tmp_path, "a.docx")


def test_a_word_file_whose_entities_grow_is_refused(tmp_path: Path) -> None:
    made = word(lambda made: made.add_paragraph("text"))
    grow = '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><r>&b;</r>'
    write(tmp_path, "a.docx", repacked(made, added=grow))
    assert "declares a DTD" in reason(tmp_path, "a.docx")


@pytest.mark.usefixtures("no_network")
def test_a_word_file_s_linked_picture_is_not_opened(tmp_path: Path) -> None:
    made = word(lambda made: made.add_picture(io.BytesIO(png())) and made.add_paragraph("text"))
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        xml = archive.read("word/document.xml").decode()
        links = archive.read("word/_rels/document.xml.rels").decode()
    linked = xml.replace("r:embed=", "r:link=")
    outside = re.sub(
        r'Target="media/[^"]*"', 'Target="http://example.org/a.png" TargetMode="External"', links
    )
    assert linked != xml
    assert outside != links
    changed = {"document": linked, "document.xml": outside}
    write(tmp_path, "a.docx", repacked(made, **changed))
    assert one(tmp_path).text == "text"


@pytest.mark.usefixtures("no_network")
def test_a_page_cannot_reach_for_anything(tmp_path: Path) -> None:
    secret = write(tmp_path, ".secret", "the secret")
    address = secret.as_uri()
    write(
        tmp_path,
        "a.html",
        f'{ENTITY.format(address=address)}<p>text &x;</p><img src="{address}">'
        f'<iframe src="{address}"></iframe><link rel="stylesheet" href="http://example.org/a.css">',
    )
    document = one(tmp_path)
    assert "text &x" in document.text
    assert "the secret" not in document.text


# -- which files are read -------------------------------------------------------------------------


def test_other_kinds_are_listed_and_hidden_files_are_not(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "text")
    write(tmp_path, "sub/b.pptx", "text")
    write(tmp_path, "no ending", "text")
    for name in (".a.md", ".git/a.md", "sub/.b/c/d.md", "~$a.docx"):
        write(tmp_path, name, "text")
    loaded = load_folder(tmp_path)
    assert [d.doc_id for d in loaded.documents] == ["a"]
    assert loaded.skipped == (Skipped("no ending", OTHER_KIND), Skipped("sub/b.pptx", OTHER_KIND))
    assert OTHER_KIND == "not a kind that the lab reads: md, txt, html, pdf, docx"


def test_a_hidden_folder_is_read_when_it_is_the_one_asked_for(tmp_path: Path) -> None:
    write(tmp_path, ".notes/a.md", "text")
    assert one(tmp_path / ".notes").doc_id == "a"


def test_links_to_folders_are_listed_and_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "sub/a.md", "text")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path, target_is_directory=True)
    assert "not followed" in reason(tmp_path, "sub/loop")
    assert [d.doc_id for d in load_folder(tmp_path).documents] == ["sub/a"]


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "broken.md").symlink_to(tmp_path / "gone.md")
    (tmp_path / "one.md").symlink_to(tmp_path / "two.md")
    (tmp_path / "two.md").symlink_to(tmp_path / "one.md")
    loaded = load_folder(tmp_path)
    assert [each.path for each in loaded.skipped] == ["broken.md", "one.md", "two.md"]
    assert {each.reason for each in loaded.skipped} == {
        "is a link that leads nowhere: remove it, or mend it"
    }


def test_a_file_reached_twice_is_read_once_under_its_own_name(tmp_path: Path) -> None:
    real = write(tmp_path, "z.md", "text")
    (tmp_path / "a.md").symlink_to(real)
    assert reason(tmp_path, "a.md") == "is the same file as z.md, by a link: it is read once"
    assert [d.doc_id for d in load_folder(tmp_path).documents] == ["z"]
    (tmp_path / "a.md").unlink()
    os.link(real, tmp_path / "a.md")
    assert "same file as a.md" in reason(tmp_path, "z.md")


def test_a_link_may_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path, "inside/a.md", "text")
    (tmp_path / "inside" / "b.txt").symlink_to(write(tmp_path, "private", "secret"))
    assert "copy the file into it" in reason(tmp_path / "inside", "b.txt")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    assert "not a file" in reason(tmp_path, "a.txt")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_files_and_folders_without_permission(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "text").chmod(0)
    closed = write(tmp_path, "closed/b.md", "text").parent
    closed.chmod(0)
    try:
        loaded = load_folder(tmp_path)
    finally:
        closed.chmod(0o700)
    assert [each.path for each in loaded.skipped] == ["a.md", "closed"]
    assert all("give yourself the right" in each.reason for each in loaded.skipped)


def test_what_may_not_be_opened_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as root, who may open all."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    write(tmp_path, "a.md", "text")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "give yourself the right" in reason(tmp_path, "a.md")


def test_one_file(tmp_path: Path) -> None:
    path = write(tmp_path, "sub/a.md", "text")
    assert load_file(path) == Document("a", "text", "a", "a.md")
    (tmp_path / "b.txt").symlink_to(path)
    assert load_file(tmp_path / "b.txt").source == "b.txt"
    for name, says in [("c.md", "is not there"), ("sub", "not a kind"), ("d.txt", "holds no text")]:
        write(tmp_path, "d.txt", "")
        with pytest.raises(RagLabError, match=f"{name}: {says}"):
            load_file(tmp_path / name)


# -- ids ------------------------------------------------------------------------------------------


def test_an_ending_stands_in_the_id_only_where_it_must(tmp_path: Path) -> None:
    for name in ("a.md", "a.txt", "b.md", "sub/a.md", "v1.2.md"):
        write(tmp_path, name, "text")
    ids = [d.doc_id for d in load_folder(tmp_path).documents]
    assert ids == ["a.md", "a.txt", "b", "sub/a", "v1.2"]


def test_an_id_of_a_card_is_kept_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\nid: a\n---\ntext")
    write(tmp_path, "a.txt", "text")
    write(tmp_path, "c.md", "---\nid: x\n---\ntext")
    write(tmp_path, "c.txt", "text")
    assert [d.doc_id for d in load_folder(tmp_path).documents] == ["a", "a.txt", "x", "c"]


def test_the_second_file_of_an_id_is_listed(tmp_path: Path) -> None:
    for name in ("a.md", "b.md", "c.md"):
        write(tmp_path, name, f"---\nid: {'x' if name != 'b.md' else 'y'}\n---\ntext")
    assert reason(tmp_path, "c.md") == "its id 'x' is that of a.md too: change one of them"
    assert [d.doc_id for d in load_folder(tmp_path).documents] == ["x", "y"]


# -- the lab --------------------------------------------------------------------------------------


def test_the_lab_reads_a_folder_of_your_own(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write(tmp_path, "a.md", "text")
    write(tmp_path, "b.pdf", pdf("text"))
    assert [d.doc_id for d in read_corpus(tmp_path)] == ["a", "b"]
    assert not recwarn.list


def test_the_lab_warns_once_of_what_it_left_out(tmp_path: Path) -> None:
    write(tmp_path, "good.md", "text")
    for name in ("1.png", "2.png", "3.png", "4.png", "5.png", "y.txt", "z.txt"):
        write(tmp_path, name, "")
    with pytest.warns(UserWarning, match="left out") as warned:
        read_corpus(tmp_path)
    assert [str(each.message) for each in warned] == [
        "7 of its files were left out:\n"
        "  y.txt: holds no text\n"
        "  z.txt: holds no text\n"
        f"  1.png: {OTHER_KIND}\n"
        f"  2.png: {OTHER_KIND}\n"
        f"  3.png: {OTHER_KIND}\n"
        "  and 2 more: load_folder(folder).skipped lists all"
    ]


def test_the_lab_refuses_a_folder_of_which_nothing_loads(tmp_path: Path) -> None:
    with pytest.raises(RagLabError, match=r"holds no document to read\.$"):
        read_corpus(tmp_path)
    write(tmp_path, "a.txt", "")
    with pytest.raises(RagLabError, match=r"a\.txt: holds no text"):
        read_corpus(tmp_path)
    with pytest.raises(RagLabError, match="not a folder"):
        load_folder(tmp_path / "none")
    assert left_out(Loaded((), ())) == ""
