"""A real browser for tests, and proof that a page asked nothing of any network."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCAL_SCHEMES = ("data", "blob", "file")
DESK = {"width": 1280, "height": 800}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def find_browser() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


def need_browser() -> str:
    """The browser's path. Without one the test is skipped, or fails if one is required."""
    found = find_browser()
    if found:
        return found
    reason = f"no browser here: none of {', '.join(NAMES)} is on the path"
    if os.environ.get("RAGLAB_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{reason}, and RAGLAB_REQUIRE_BROWSER=1 asks for one")
    pytest.skip(reason)


@contextmanager
def open_browser() -> Iterator[object]:
    """A browser that is closed again, whatever the test does."""
    path = need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


def watch_requests(context) -> list[str]:
    """Every address that the pages of this browser context ask for, from now on."""
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: asked.append(socket.url)))
    return asked


def with_state(page: str, state: Mapping[str, Any]) -> str:
    """A widget's page with other traits, as a kernel would have sent them."""
    head, rest = page.split('id="raglab-data">')
    data, tail = rest.split("</script>", 1)
    text = json.dumps({**json.loads(data), **state}).replace("<", "\\u003c")
    return f'{head}id="raglab-data">{text}</script>{tail}'


class Pages:
    """Opens pages from files. `close` fails if one of them failed or left the machine."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.browser, self.folder = browser, folder
        self.contexts: list[Any] = []
        self.asked: list[list[str]] = []
        self.errors: list[str] = []

    def open(
        self, text: str, *, wait: str, viewport: Mapping[str, int] = DESK, **settings: Any
    ) -> Any:
        """A page of this text, once what `wait` selects is there."""
        context = self.browser.new_context(viewport=viewport, **settings)
        self.contexts.append(context)
        self.asked.append(watch_requests(context))
        path = self.folder / f"{len(self.contexts)}.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.set_default_timeout(8000)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.errors.append(line.text))
        page.goto(path.as_uri())
        page.wait_for_selector(wait)
        return page

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        for urls in self.asked:
            assert_stayed_here(urls)
        assert not self.errors, self.errors


def is_local(url: str) -> bool:
    """Does this address stay on this machine?

    >>> is_local("http://127.0.0.1:8888/lab"), is_local("https://cdn.example.org/x.js")
    (True, False)
    """
    parts = urlsplit(url)
    return parts.scheme in LOCAL_SCHEMES or parts.hostname in LOOPBACK


def assert_stayed_here(asked: list[str]) -> None:
    away = [url for url in asked if not is_local(url)]
    assert not away, f"the page asked the network for {away}"
    assert asked, "no request was seen at all: was the page opened before the watch?"
