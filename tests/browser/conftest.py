"""The explorer in headless Chromium. Every page is watched: no error on its console, no request that leaves this computer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

# What axe-core has to say of a page that is serious: the rule, and where it is broken.
ACCESSIBLE = f"""async () => {{
  {files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")};
  const found = await axe.run(document, {{ resultTypes: ["violations"] }});
  const bad = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
  return bad.map((each) => [each.id, ...each.nodes.map((node) => node.html.slice(0, 200))]);
}}"""
# Compiling takes a while on two cores, more so when they have other work.
PATIENCE = 60_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where `spinodal explore` serves, started as a user would."""
    words = [sys.executable, "-c", "from spinodal.cli import main; main()", "explore", "--no-browser", "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    line = server.stdout.readline()
    assert "http://127.0.0.1:" in line
    yield line.split()[4]
    server.terminate()
    server.wait(timeout=20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("Chromium is not installed: make test-browser installs it.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Callable[..., Page]]:
    """open_page("?pi=6") is a tab of its own with its figures drawn."""
    contexts, troubles = [], []

    def opened(query: str = "", *, ready: bool = True, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": 1366, "height": 768}, accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: message.type == "error" and troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: request.url.startswith((address, "data:", "blob:")) or troubles.append(request.url))
        page.goto(address + query)
        if ready:
            drawn(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


def drawn(page: Page) -> None:
    """Wait until every figure of the theory and the numbers are there."""
    for name in ("diagram", "potential", "curve", "errors"):
        page.wait_for_selector(f"#{name} .scatterlayer .trace path")
    page.wait_for_selector("#readout .phase")


def state(page: Page) -> dict[str, str]:
    """The state in a page's address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
