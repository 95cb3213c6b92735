"""A file of the reader's dropped on the page: good, bad, too large, with a hostile name; solved, reported, taken home."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import spinodal as sp
from conftest import ACCESSIBLE, state

Open = Callable[..., Page]

# With F': quick to solve.
PROBLEM = sp.Problem.sparse(alpha=1.0, pi=8.0, rho=0.2, eta=0.02, noise_variance=1e-3)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    instance = sp.sample(PROBLEM, 12, seed=2)
    path = tmp_path_factory.mktemp("own") / "my sensors.npz"
    np.savez(path, Y=instance.observed.Y, F_prime=instance.observed.F_prime, row_names=[f"sensor {k}" for k in range(12)], eta=0.02)
    return path


def send(page: Page, name: str, content: bytes) -> None:
    page.set_input_files("#own-file", {"name": name, "mimeType": "text/csv", "buffer": content})


def table(rows: int = 6, columns: int = 20, offset: float = 0.0) -> bytes:
    text = io.StringIO()
    np.savetxt(text, np.random.default_rng(1).normal(offset, 1.0, (rows, columns)), delimiter=",", fmt="%.5f")
    return text.getvalue().encode()


def test_a_file_is_solved_and_taken_home(open_page: Open, good: Path, tmp_path: Path) -> None:
    page = open_page()
    page.set_input_files("#own-file", good)
    expect(page.locator("#own-progress")).to_contain_text("my sensors.npz was read: 12 measurements of 96 signals.")
    expect(page.locator("#own-summary table").first).to_contain_text("sensor 0")
    expect(page.locator("#own-ratios")).to_have_text("α = M/N = 1, π = P/N = 8.")
    expect(page.locator("#own-command")).to_have_text("spinodal solve 'my sensors.npz' --seed 0 --report report.html")
    expect(page.locator("#own-atoms")).to_be_disabled()  # F' says it
    page.get_by_role("button", name="Solve", exact=True).press("Enter")
    expect(page.locator("#own-solve")).to_be_disabled()
    expect(page.locator("#own")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#own-progress")).to_have_text("Solved: converged.")
    expect(page.locator("#own-result .verdict")).to_contain_text("The run converged.")
    expect(page.locator("#own-result")).to_contain_text("Next step:")
    report = page.frame_locator("#own-report")
    for title in ("Where these data lie", "Residuals", "Atoms", "Uncertainty"):
        expect(report.get_by_role("heading", name=title)).to_be_visible()
    expect(report.locator("body")).to_contain_text("90% interval")
    assert page.evaluate("document.querySelector('#own-report').contentDocument.documentElement.dataset.theme") == "light"
    height = page.locator("#own-report").bounding_box()
    assert height is not None
    assert height["height"] > 1500  # all of it, without a bar to scroll
    for name in ("report.html", "solution.npz", "solution.csv"):
        with page.expect_download() as waiting:
            page.get_by_role("link", name=f"Download {name}").click()
        assert waiting.value.suggested_filename == f"spinodal-{name}"
        waiting.value.save_as(tmp_path / name)
    with np.load(tmp_path / "solution.npz") as arrays:
        assert arrays["F_mean"].shape == (12, 12)
    assert (tmp_path / "solution.csv").read_text().startswith("matrix,row,column")
    assert "my sensors.npz" in (tmp_path / "report.html").read_text()
    assert page.evaluate(ACCESSIBLE) == []
    page.get_by_role("button", name="Dark").click()
    page.wait_for_function("() => document.querySelector('#own-report').contentDocument.documentElement.dataset.theme === 'dark'")
    assert page.evaluate(ACCESSIBLE) == []
    page.get_by_role("button", name="Show in the diagram").click()
    page.wait_for_function("() => new URLSearchParams(location.search).get('pi') === '8'")
    assert (state(page)["alpha"], state(page)["eta"], state(page)["channel"]) == ("1", "0.02", "gaussian")
    # A tab that is loaded again finds it again, and a phone has room for it.
    page.set_viewport_size({"width": 390, "height": 844})
    page.reload()
    expect(page.locator("#own-result .verdict")).to_contain_text("The run converged.")
    expect(report.get_by_role("heading", name="Residuals")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_dropped_table_is_read_and_warned_of(open_page: Open) -> None:
    page = open_page()
    page.evaluate(
        """text => {
      const data = new DataTransfer();
      data.items.add(new File([text], "far off.csv"));
      const event = { dataTransfer: data, bubbles: true, cancelable: true };
      for (const kind of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(kind, event));
    }""",
        table(offset=5.0).decode(),
    )
    expect(page.locator("#own-progress")).to_contain_text("far off.csv was read: 6 measurements of 20 signals.")
    expect(page.locator("#own-warnings")).to_contain_text("mean")
    page.fill("#own-atoms", "4")
    page.check("#own-means")
    page.fill("#own-density", "0.3")
    page.fill("#own-channel", "clipped:low=-1,high=1")
    expect(page.locator("#own-command")).to_contain_text("--n-atoms 4 --density 0.3 --channel clipped:low=-1,high=1 --no-center --seed 0")
    expect(page.locator("#own-ratios")).to_have_text("α = M/N = 1.5, π = P/N = 5.")
    page.get_by_text("How the table is written").click()
    page.check("#own-transpose")
    expect(page.locator("#own-progress")).to_contain_text("20 measurements of 6 signals.")
    page.fill("#own-channel", "nonsense")
    page.click("#own-solve")
    expect(page.locator("#own-message")).to_contain_text("channel must be one of")
    expect(page.locator("#own-solve")).to_be_enabled()


def test_bad_files_are_refused_in_a_sentence(open_page: Open) -> None:
    page = open_page()
    message = page.locator("#own-message")
    for name, content, words in (
        ("bad.csv", b"a,b\n1,2\n3,oops\n", "oops"),
        ("empty.csv", b"", "must have something in it"),
        ("notes.docx", b"PK", "The file must end in one of .csv"),
        ("noise.csv", bytes(range(256)), "noise.csv"),
        ("forged.npz", b"PK\x03\x04forged", "must be a whole .npz file"),
    ):
        send(page, name, content)
        expect(message).to_contain_text(words)
        expect(page.locator("#own-read")).to_be_hidden()
        assert len(message.inner_text().splitlines()) == 1
    expect(message).to_have_attribute("role", "alert")


def test_50_megabytes_are_answered_with_a_sentence(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    path = tmp_path / "large.csv"
    path.write_bytes(b"1.5,2.5\n" * 6_250_000)
    page.set_input_files("#own-file", path)
    sentence = "A file must have at most 20 MB on this page; `spinodal solve` on the command line has no such limit."
    expect(page.locator("#own-message")).to_have_text(sentence)


def test_hostile_names_are_shown_as_they_are(open_page: Open) -> None:
    page = open_page()
    page.on("dialog", lambda _: pytest.fail("something was run"))
    for name in ("<img src=x onerror=alert(1)>.csv", "'; $(touch x) `id` .csv", "\u202etxt.exe.csv", "-rf.csv", "ü" * 80 + ".csv"):
        send(page, name, table())
        expect(page.locator("#own-progress")).to_contain_text(f"{name[-20:]} was read: 6 measurements of 20 signals.")
        assert page.locator("#own img").count() == 0
        assert page.inner_text("#own-command").startswith("spinodal solve ./-rf.csv " if name.startswith("-") else "spinodal solve '")


def test_a_solve_is_cancelled(open_page: Open) -> None:
    page = open_page()
    send(page, "long.csv", table(40, 400))
    expect(page.locator("#own-solve")).to_be_enabled()
    page.click("#own-solve")
    expect(page.locator("#own-cancel")).to_be_enabled()
    page.get_by_role("region", name="Your own data").get_by_role("button", name="Cancel").press("Enter")
    expect(page.locator("#own-progress")).to_have_text("Cancelled.")
    expect(page.locator("#own-solve")).to_be_enabled()


def test_a_solve_is_cancelled_before_the_server_has_answered(open_page: Open) -> None:
    """The last work that the page knows by name is then another: the look at the file."""
    page = open_page()
    held: list[Any] = []
    send(page, "long.csv", table(40, 400))
    expect(page.locator("#own-solve")).to_be_enabled()
    page.route("**/data/solve", lambda route: held.append(route))
    with page.expect_request("**/data/solve"):
        page.click("#own-solve")
    page.click("#own-cancel")
    with page.expect_response("**/data/solve"):
        held[0].continue_()
    expect(page.locator("#own-progress")).to_have_text("Cancelled.")
    expect(page.locator("#own-solve")).to_be_enabled()
