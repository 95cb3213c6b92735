"""Presets, numbers, channels, help, copying, and the page on a phone, a projector and paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, expect

from conftest import ACCESSIBLE, drawn, state
from spinodal.explorer.words import CONTROLS, PRESETS, SLIDERS

Open = Callable[..., Page]


def number(page: Page, name: str, text: str) -> None:
    page.fill(f"#{name}-number", text)
    page.keyboard.press("Enter")


def test_presets_set_everything_and_say_what_they_are(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#preset-badly-known")).to_have_attribute("aria-pressed", "true")
    for name, preset in PRESETS.items():
        button = page.get_by_role("button", name=preset.label)
        button.press("Enter")
        expect(button).to_have_attribute("aria-pressed", "true")
        expect(page.locator("#preset-says")).to_have_text(preset.says)
        page.wait_for_function("query => location.search.slice(1) === query", arg=preset.state.query())
        assert page.locator("[aria-pressed=true]").count() == 1, name
        expect(page.locator("#n")).to_have_value(str(preset.state.n))
    page.wait_for_function("() => document.querySelector('#busy').hidden")
    assert state(page)["channel"] == "one-bit"
    expect(page.locator("#command")).to_contain_text("--channel one-bit:variance=0.0001")
    expect(page.locator("#code")).to_contain_text('named_channel("one-bit:variance=0.0001")')
    expect(page.locator("#readout")).not_to_contain_text("π*")


def test_numbers_beside_the_sliders(open_page: Open) -> None:
    page = open_page()
    for name, text, shown in (
        ("alpha", "0.75", "0.75"),
        ("rho", "0,2", "0.2"),
        ("eta", "inf", "∞"),
        ("eta", "10⁻²", "0.01"),
        ("delta", "2e-5", "2·10⁻⁵"),
        ("delta", "0", "0"),
        ("pi", "7", "7"),
    ):
        number(page, name, text)
        expect(page.locator(f"#{name}-number")).to_have_value(shown)
        expect(page.locator(f"#{name}")).to_have_attribute("aria-valuetext", shown)
        expect(page.locator("#message")).to_have_text("")
    assert [state(page)[name] for name in SLIDERS] == ["0.75", "0.2", "0.01", "0", "7"]
    number(page, "rho", "0.123")
    expect(page.locator("#message")).to_contain_text("lies between two steps of its slider; 0.12 is shown.")
    for text in ("7", "-1", "nonsense", "", "<b>1</b>", "1e999"):
        number(page, "rho", text)
        expect(page.locator("#message")).to_contain_text("ρ must be a number from 0.01 to 0.99")
        assert state(page)["rho"] == "0.12"
        expect(page.locator("#rho-number")).to_have_attribute("aria-invalid", "true")
    page.focus("#rho")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#rho-number")).to_have_value("0.13")


def test_a_channel_is_chosen_computed_and_run(open_page: Open) -> None:
    page = open_page("?eta=0.02&rho=0.1&pi=5&delta=1e-4&n=20&seed=3")
    page.get_by_label("channel", exact=True).first.select_option("gains")
    expect(page.locator("#command")).to_contain_text("--channel gains:variance=0.0001,spread=0.3")
    page.wait_for_function("() => document.querySelector('#busy').hidden")
    page.click("#start")
    expect(page.locator("#progress")).to_contain_text("Converged.")
    page.select_option("#channel", "logistic")  # answers have no noise of a variance
    expect(page.locator("#delta")).to_be_disabled()
    expect(page.locator("#delta-number")).to_be_disabled()
    page.select_option("#channel", "gaussian")
    expect(page.locator("#delta")).to_be_enabled()


def test_what_is_under_way_is_said(open_page: Open) -> None:
    page = open_page()
    held: list[Any] = []
    page.route("**/figures", lambda route: held.append(route))
    page.focus("#pi")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#busy")).to_have_text("Computing…")
    expect(page.locator("#figures")).to_have_attribute("aria-busy", "true")
    for route in held:
        route.continue_()
    page.unroute("**/figures")
    expect(page.locator("#busy")).to_be_hidden()
    expect(page.locator("#figures")).to_have_attribute("aria-busy", "false")


def test_every_control_has_help_by_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page()
    for name, text in {**{key: words[2] for key, words in SLIDERS.items()}, **{key: words[1] for key, words in CONTROLS.items()}}.items():
        tip = page.locator(f"#{name}-tip")
        expect(tip).to_be_hidden()
        mark = page.locator(f"a.help[href='/help#{name}']")
        mark.hover()
        expect(tip).to_be_visible()
        expect(tip).to_have_text(text)
    page.mouse.move(700, 400)
    page.focus("#preset-one-bit")
    page.keyboard.press("Tab")
    expect(page.locator("#alpha-tip")).to_be_visible()
    with page.context.expect_page() as opened:
        page.keyboard.press("Enter")
    expect(opened.value.locator("dt#alpha")).to_contain_text("α = M/N")
    assert opened.value.evaluate(ACCESSIBLE) == []


def test_copy_buttons(open_page: Open) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    for name in ("command", "code"):
        page.click(f"#copy-{name}")
        expect(page.locator(f"#copy-{name}")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.locator(f"#{name}").text_content()
    page.locator("#copy-address").press("Enter")
    expect(page.locator("#copy-address")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    # Pages that are not on this computer have no clipboard: it is done the old way.
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.click("#copy-code")
    expect(page.locator("#copy-code")).to_have_text("Copied")


def test_figures_have_their_numbers_in_a_table(open_page: Open) -> None:
    page = open_page()
    for name in ("diagram", "potential", "curve", "errors", "recovered", "atoms"):
        page.locator(f"summary[aria-label='Numbers of the figure: {name}']").press("Enter")
    expect(page.locator("#errors-numbers th[scope=col]")).to_have_text(["line", "iteration + 1", "mean squared error"])
    shown = page.locator("#errors-numbers tbody tr").first.inner_text().split("\t")
    assert shown[0] == "E, predicted"
    assert float(shown[2]) > 0
    expect(page.locator("#diagram-numbers tbody th").first).to_have_text("π*")
    expect(page.locator("#recovered-numbers")).to_have_text("Nothing is drawn yet.")
    before = page.inner_text("#errors-numbers")
    page.focus("#pi")
    page.keyboard.press("Home")
    page.wait_for_function("before => document.querySelector('#errors-numbers').innerText !== before", arg=before)


def test_no_serious_problem_of_accessibility(open_page: Open) -> None:
    page = open_page()
    for scheme in ("Dark", "Light"):
        page.get_by_role("button", name=scheme).click()
        page.wait_for_function("() => document.querySelector('#busy').hidden")
        for width in (390, 1366, 1920):
            page.set_viewport_size({"width": width, "height": 844})
            page.wait_for_function("width => document.querySelector('#diagram').offsetWidth <= width", arg=width)
            assert page.evaluate(ACCESSIBLE) == [], (scheme, width)
            page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=width)


def test_a_phone_has_large_targets_and_the_same_controls(open_page: Open) -> None:
    page = open_page()
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("#start", "#preset-one-bit", "#channel", "#alpha-number", "#toggle"):
        box = page.locator(name).bounding_box()
        assert box is not None
        assert box["height"] >= 32, name
        assert box["x"] + box["width"] <= 390, name
    for name in ("diagram", "errors"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert 300 < box["width"] <= 390
    page.locator("a.help[href='/help#pi']").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_projector_has_larger_letters(open_page: Open) -> None:
    page = open_page()
    small = page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)")
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.reload()
    drawn(page)
    assert page.evaluate("parseFloat(getComputedStyle(document.body).fontSize)") > 1.2 * small
    assert page.evaluate("document.querySelector('#curve .js-plotly-plot').layout.font.size") > 12
    box = page.locator("#atoms").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 1080


def test_paper_is_white_and_has_no_buttons(open_page: Open) -> None:
    page = open_page(color_scheme="dark")
    colour = "document.querySelector('#curve .js-plotly-plot').layout.paper_bgcolor"
    dark = page.evaluate(colour)
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function(f"() => {colour} === '#ffffff'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for name in ("#toggle", ".presets", "#start", "#copy-code", "#own-drop"):
        expect(page.locator(name)).to_be_hidden()
    assert len(page.pdf()) > 20_000
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_function(f"dark => {colour} === dark", arg=dark)
