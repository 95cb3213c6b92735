"""The explorer in Chromium: from the event of a slider to the first and to the last redrawn figure, slider by slider."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from typing import Any

SLIDERS = ("alpha", "rho", "eta", "delta", "pi")
# Steps of each slider that are measured, after the first ones are left out.
STEPS, LEFT_OUT = 20, 2
# No figure redrawn and no question under way for this long: all is drawn. In milliseconds.
QUIET = 250

# Notes the time of every slider event and of every redrawn figure, and what is still under way.
WATCH = """() => {
  window.seen = {asked: 0, first: 0, drawn: 0, pending: 0};
  const fetched = window.fetch;
  window.fetch = (...words) => {
    window.seen.pending += 1;
    return fetched(...words).finally(() => { window.seen.pending -= 1; });
  };
  document.addEventListener("input", () => { window.seen.asked = performance.now(); window.seen.first = window.seen.drawn = 0; }, true);
  for (const graph of document.querySelectorAll(".js-plotly-plot"))
    graph.on("plotly_afterplot", () => requestAnimationFrame(() => {
      window.seen.drawn = performance.now();
      window.seen.first = window.seen.first || window.seen.drawn;
    }));
}"""
SETTLED = f"() => window.seen.drawn && !window.seen.pending && performance.now() - window.seen.drawn > {QUIET}"


def measure(page: Any, slider: str) -> list[tuple[float, float]]:
    """Milliseconds from each key on a slider to the first figure and to the last."""
    page.focus(f"#{slider}")
    times = []
    for _ in range(STEPS + LEFT_OUT):
        page.evaluate("() => { window.seen.drawn = 0; }")
        page.keyboard.press("ArrowRight")
        page.wait_for_function(SETTLED, timeout=20_000)
        times.append(tuple(page.evaluate("() => [window.seen.first - window.seen.asked, window.seen.drawn - window.seen.asked]")))
    return times[LEFT_OUT:]


def main() -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("The explorer is not measured: playwright is not installed (pip install 'spinodal[dev]').")
        return
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        print("The explorer is not measured: there is no Chromium (apt-get install chromium).")
        return
    words = [sys.executable, "-c", "from spinodal.cli import main; main()", "explore", "--no-browser", "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[4]
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1366, "height": 768})
            page.goto(address)
            page.wait_for_selector("#readout .phase", timeout=120_000)
            page.wait_for_selector("#errors .scatterlayer .trace", timeout=120_000)
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(8_000)  # the rest of the warming up
            page.evaluate(WATCH)
            print("ms from a slider's event to the first redrawn figure (median) and to the last (median, 90%):")
            every: list[float] = []
            for slider in SLIDERS:
                first, last = zip(*measure(page, slider), strict=True)
                every += last
                ninety = statistics.quantiles(last, n=10)[-1]
                print(f"  {slider:6s} {statistics.median(first):6.0f} {statistics.median(last):6.0f} {ninety:6.0f}")
            print(f"  all of them, to the last figure: median {statistics.median(every):.0f}")
            chromium.close()
    finally:
        server.terminate()
        server.wait(timeout=10)
