"""What a reader does with the page, done in Chromium."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from conftest import drawn, state
from spinodal.explorer.words import PRESETS

Open = Callable[..., Page]

SLIDERS = {"alpha": "α = M/N", "rho": "ρ, density", "eta": "η, error", "delta": "Δ, noise", "pi": "π = P/N"}
# A strong hint: quick to compile and to solve. Hopeless: the same, but large and beyond what can be recovered, so that it lasts.
QUICK = "?eta=0.02&rho=0.1&pi=5&delta=1e-4&n=20&seed=3"
LASTING = "?alpha=0.5&eta=0.02&rho=0.6&pi=5&delta=1e-4&n=200&seed=3"
# What is drawn in the figure `name`: plotly's traces, and in the diagram the place where we are.
DRAWN = """(graph => {
  const ring = graph.parentElement.querySelector("#here-ring");
  return JSON.stringify(ring ? [...graph.data, ring.dataset.place] : graph.data);
})(document.querySelector("#" + name + " .js-plotly-plot"))"""


def figure(page: Page, name: str) -> Any:
    """What is drawn in a figure: traces and, last, the place."""
    return json.loads(page.evaluate(f"name => {DRAWN}", name))


def changes(page: Page, name: str, action: Callable[[], Any]) -> None:
    """Do it, and wait until the figure is another."""
    before = json.dumps(figure(page, name))
    action()
    page.wait_for_function(f"([name, before]) => {DRAWN} !== JSON.stringify(JSON.parse(before))", arg=[name, before])


def test_every_slider_moves_its_figures_label_and_address(open_page: Open) -> None:
    page = open_page()
    for name, label in SLIDERS.items():
        slider = page.get_by_role("slider", name=label)
        expect(slider).to_have_id(name)
        shown, kept = page.input_value(f"#{name}-number"), state(page)
        slider.focus()
        for which in ("curve", "diagram", "errors"):
            changes(page, which, lambda: page.keyboard.press("ArrowRight"))
        assert page.input_value(f"#{name}-number") != shown
        assert {key for key, value in state(page).items() if value != kept[key]} == {name}
        assert slider.get_attribute("aria-valuetext") == page.input_value(f"#{name}-number")
    # The ends of the two that have more than numbers.
    page.focus("#eta")
    page.keyboard.press("End")
    expect(page.locator("#eta-number")).to_have_value("∞")
    page.focus("#delta")
    page.keyboard.press("Home")
    expect(page.locator("#delta-number")).to_have_value("0")
    assert (state(page)["eta"], state(page)["delta"]) == ("inf", "0")
    expect(page.locator("#command")).to_contain_text("--eta inf --delta 0")


def test_priors_size_and_seed(open_page: Open) -> None:
    page = open_page()
    changes(page, "diagram", lambda: page.get_by_label("prior of X", exact=True).select_option("rademacher"))
    expect(page.locator("#rho")).to_be_disabled()  # this prior has no density
    expect(page.locator("#command")).to_contain_text("use the Python")
    expect(page.locator("#code")).to_contain_text("X=sp.Rademacher()")
    page.get_by_label("prior of X", exact=True).select_option("gauss-bernoulli")
    expect(page.locator("#rho")).to_be_enabled()
    changes(page, "curve", lambda: page.get_by_label("prior of F", exact=True).select_option("rademacher"))
    expect(page.locator("#code")).to_contain_text("F=sp.Rademacher()")
    for name, value in (("N", "37"), ("seed", "11")):
        page.get_by_role("region", name="Controls").get_by_label(name, exact=True).fill(value)
        page.keyboard.press("Enter")
    expect(page.locator("#code")).to_contain_text("sp.sample(problem, 37, seed=11)")
    assert (state(page)["n"], state(page)["seed"], state(page)["f"]) == ("37", "11", "rademacher")


def test_a_click_in_the_diagram_selects_a_point(open_page: Open) -> None:
    page = open_page()
    before = state(page)
    box = page.locator("#diagram .nsewdrag").bounding_box()
    assert box is not None
    changes(page, "curve", lambda: page.mouse.click(box["x"] + 0.25 * box["width"], box["y"] + 0.25 * box["height"]))
    after = state(page)
    # A quarter from the left of [0, 1.25 alpha], a quarter from the top of [0.5, 100] in logarithm.
    assert float(after["rho"]) == pytest.approx(0.25 * 1.25 * 0.6, abs=0.011)
    assert float(after["pi"]) == pytest.approx(100 * (0.5 / 100) ** 0.25, rel=0.1)
    assert {key for key in after if after[key] != before[key]} == {"rho", "pi"}
    assert [float(word) for word in figure(page, "diagram")[-1].split()] == [float(after["rho"]), float(after["pi"])]
    ring = page.locator("#here-ring").bounding_box()
    assert ring is not None
    assert ring["x"] + ring["width"] / 2 == pytest.approx(box["x"] + 0.25 * box["width"], abs=8)
    assert ring["y"] + ring["height"] / 2 == pytest.approx(box["y"] + 0.25 * box["height"], abs=8)


def test_the_address_is_the_state(open_page: Open) -> None:
    page = open_page("?alpha=0.7&rho=0.3&eta=inf&delta=0&pi=9&x=gauss-bernoulli&f=gaussian&n=50&seed=4")
    texts = {name: page.input_value(f"#{name}-number") for name in SLIDERS}
    assert texts == {"alpha": "0.7", "rho": "0.3", "eta": "∞", "delta": "0", "pi": "9"}
    again = open_page("?" + urlsplit(page.url).query)
    assert state(again) == state(page)
    assert figure(again, "diagram") == figure(page, "diagram")
    assert again.locator("#message").inner_text() == ""
    expect(page.locator("#code")).to_contain_text("knowledge=sp.Nothing()")


def test_nonsense_in_the_address_is_named_and_ignored(open_page: Open) -> None:
    page = open_page("?alpha=99&x=<b>bold</b>&n=1e9&pi=6")
    message = page.get_by_role("alert")
    for words in ("alpha must be a number from 0.05 to 2", "x must be one of", "n must be a whole number from 10 to 400"):
        expect(message).to_contain_text(words)
    assert page.locator("#message b").count() == 0
    assert (state(page)["alpha"], state(page)["pi"]) == ("0.6", "6")


def test_amp_runs_live_over_its_prediction(open_page: Open) -> None:
    page = open_page(QUICK)
    assert len(figure(page, "errors")) == 2
    page.get_by_role("button", name="Run", exact=True).press("Enter")
    expect(page.locator("#progress")).to_contain_text("Converged.")
    predicted_X, _, measured_X, typical_X, measured_F = figure(page, "errors")
    assert measured_X["x"][:3] == [2, 3, 4]
    assert measured_X["y"][-1] < measured_X["y"][0] / 10
    assert predicted_X["y"][-1] < measured_X["y"][0] / 10
    assert len(measured_F["y"]) == len(typical_X["y"]) == len(measured_X["x"])
    assert typical_X["y"][-1] <= measured_X["y"][-1]
    assert len(figure(page, "recovered")[0]["x"]) == 1500
    assert len(figure(page, "atoms")[0]["y"]) == 20
    expect(page.locator("#atoms")).to_contain_text("% recovered")
    # A run of other settings is not drawn over this prediction.
    page.focus("#pi")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.querySelector('#errors .js-plotly-plot').data.length === 2")
    expect(page.locator("#progress")).to_contain_text("(of other settings)")


def test_a_reload_finds_the_run_again_and_cancel_ends_it(open_page: Open) -> None:
    page = open_page(LASTING)
    page.click("#start")
    expect(page.locator("#start")).to_be_disabled()
    expect(page.locator("#progress")).to_contain_text("Running.")
    page.reload()
    drawn(page)
    expect(page.locator("#progress")).to_contain_text("Running.")
    expect(page.locator("#start")).to_be_disabled()
    page.wait_for_function("() => document.querySelector('#errors .js-plotly-plot').data.length === 5")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#progress")).to_contain_text("Cancelled.")
    expect(page.locator("#start")).to_be_enabled()
    expect(page.locator("#cancel")).to_be_disabled()


def test_two_tabs_do_not_disturb_each_other(open_page: Open) -> None:
    one, two = open_page(QUICK), open_page(QUICK.replace("seed=3", "seed=4"))
    for page in (one, two):
        page.click("#start")
    two.focus("#rho")
    changes(two, "curve", lambda: two.keyboard.press("ArrowRight"))
    two.keyboard.press("ArrowLeft")
    ends = []
    for page in (one, two):
        expect(page.locator("#progress")).to_contain_text("Converged.")
        ends.append(page.inner_text("#progress"))
    assert ends[0] != ends[1]
    assert (state(one)["seed"], state(two)["seed"]) == ("3", "4")
    assert state(one)["rho"] == state(two)["rho"] == "0.1"


def test_downloads(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    page.get_by_label("figure", exact=True).select_option("diagram")
    found = {}
    for kind in ("svg", "png", "csv", "json", "nc"):
        page.get_by_label("as", exact=True).select_option(kind)
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Download", exact=True).click()
        assert waiting.value.suggested_filename == f"spinodal-diagram.{kind}"
        found[kind] = tmp_path / f"diagram.{kind}"
        waiting.value.save_as(found[kind])
    assert b"<svg" in found["svg"].read_bytes()
    assert "density" in found["svg"].read_text()
    assert found["png"].read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(found["csv"].open()))
    assert len(rows) == 33
    assert float(rows[0]["pi_star"]) == pytest.approx(0.6 / (0.6 - float(rows[0]["rho"])))
    assert json.loads(found["json"].read_bytes())["attrs"]["alpha"] == 0.6
    import xarray

    assert xarray.load_dataset(found["nc"], engine="scipy").sizes["rho"] == 33


def test_by_keyboard_alone(open_page: Open) -> None:
    page = open_page(QUICK)
    visited = []
    for _ in range(160):  # the figures have buttons too
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            " return [e.id, s.outlineStyle, parseFloat(s.outlineWidth)]; }"
        )
        if focused[0]:
            visited.append(focused[0])
            assert focused[1] != "none", focused
            assert focused[2] >= 2, focused
    presets = [f"preset-{name}" for name in PRESETS]
    sliders = [id for name in SLIDERS for id in (f"{name}-number", name)]
    ends = ["copy-command", "command", "copy-code", "code", "which", "format", "save", "copy-address"]
    wanted = ["toggle", *presets, *sliders, "x", "f", "channel", "n", "seed", "start", "own-file", *ends]
    assert [name for name in visited if name in wanted][: len(wanted)] == wanted
    unnamed = page.evaluate(
        "() => [...document.querySelectorAll('input, select, button')].filter(e => e.offsetParent && !e.labels?.length &&"
        " !e.textContent.trim() && !e.getAttribute('aria-label')).map(e => e.outerHTML)"
    )
    assert unnamed == []


def test_dark_by_the_system_or_by_choice(open_page: Open) -> None:
    def paper(page: Page) -> str:
        page.wait_for_function("() => document.querySelector('#curve .js-plotly-plot')?.layout?.paper_bgcolor")
        return page.evaluate("document.querySelector('#curve .js-plotly-plot').layout.paper_bgcolor")

    light, dark = open_page(), open_page(color_scheme="dark")
    assert paper(light) == "#ffffff"
    assert paper(dark) != paper(light)
    light.get_by_role("button", name="Dark").click()
    light.wait_for_function("() => document.querySelector('#curve .js-plotly-plot').layout.paper_bgcolor !== '#ffffff'")
    assert paper(light) == paper(dark)
    assert light.evaluate("getComputedStyle(document.body).backgroundColor") == dark.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    light.reload()
    drawn(light)
    assert paper(light) == paper(dark)  # remembered


def test_a_laptop_has_room_for_it(open_page: Open) -> None:
    page = open_page()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366
    for name in ("diagram", "potential", "curve", "errors", "recovered", "atoms"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["width"] > 300
        assert box["y"] + box["height"] <= 768
