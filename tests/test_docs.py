"""The documentation is kept true: the equations' table, every fenced block that readers will paste, and the links."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer
from markdown.extensions.toc import slugify

from conftest import Done

ROOT = Path(__file__).parent.parent
# The paper numbers 26 equations.
EQUATIONS = 26
ROWS = re.findall(r"^\| (after )?\((\d+)\) \|[^|]*\| ([^|]*) \|", (ROOT / "docs" / "equations.md").read_text(), flags=re.MULTILINE)
NAMED = [(after + number, name) for after, number, cell in ROWS for name in re.findall(r"`([\w.]+)`", cell)]


def resolve(path: str) -> Any:
    """The object with a dotted name: the longest importable module, then attributes."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"{path} does not exist")


def cited(text: str) -> set[int]:
    """Numbers of the equations that a docstring cites: Eq. (6), Eqs. (25) and (26), Eqs. (1)-(3), each followed by `of KMZ13`."""
    numbers: set[int] = set()
    for phrase in re.findall(r"Eqs?\. ([()\d, and-]+?) of KMZ13", text):
        for first, last in re.findall(r"\((\d+)\)(?:-\((\d+)\))?", phrase):
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_every_equation_of_the_paper_is_listed_once_and_in_order() -> None:
    assert [int(number) for after, number, _ in ROWS if not after] == list(range(1, EQUATIONS + 1))
    assert all("`" in cell or "docs/solvers.md" in cell for *_, cell in ROWS)


@pytest.mark.parametrize(("equation", "name"), NAMED)
def test_each_function_exists_and_cites_its_equation(equation: str, name: str) -> None:
    assert int(equation.removeprefix("after ")) in cited(resolve(name).__doc__)


def test_no_source_cites_an_equation_that_the_table_gives_to_another() -> None:
    """A citation in the theory's source is of an equation that the table attributes to a function of the same file."""
    table: dict[str, set[int]] = {}
    for equation, name in NAMED:
        table.setdefault(resolve(name).__module__, set()).add(int(equation.removeprefix("after ")))
    for path in [*(ROOT / "src" / "spinodal").glob("theory/*.py"), ROOT / "src" / "spinodal" / "model" / "model.py"]:
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        allowed = table.get(module, set()) | {5, 6, 7}  # the potential and its conjugates are spoken of everywhere
        assert cited(path.read_text()) <= allowed | ({1, 2, 3} if module == "spinodal.model.model" else set()), path


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Their blocks share names, as those of notebooks do: test_tutorials runs them.
TUTORIALS = "docs/tutorials/"
# Its examples and its tree are the business of test_architecture.
ARCHITECTURE = "docs/architecture.md"
# Pages whose blocks are run by `make test`; those of the others take longer, and are run by `make claims`.
QUICK = ("README.md", *(f"docs/{name}.md" for name in ("concepts", "files", "gpu", "index", "priors", "solvers", "your-data")))
# Pages with data of a package that `.[dev]` installs and nothing else needs.
WITH_DATA = {"docs/unmixing.md": "tensorly"}
# A block that waits for its reader, by a line of it: it has a test of its own.
SLURM = "from dask_jobqueue import SLURMCluster"
# Commands of which only the words and options are checked by `make test`, and why. Tests of their own (claims) run the first three, those
# in tests/browser the last.
DASK = "spinodal sweep run amp.toml --out sweep --executor dask --workers 4"
SCHEDULER = "spinodal sweep run amp.toml --out sweep --scheduler tcp://10.0.0.1:8786"
ONLY_PARSED = {
    "spinodal reproduce all --fast --out out": "takes minutes; `reproduce fig3` stands for it here",
    DASK: "starts four workers",
    SCHEDULER: "needs a scheduler, at another address here",
    "spinodal explore": "serves pages until it is stopped",
}
# The spec in docs/cluster.md made small, so that the commands after it take seconds: what is replaced by what.
SMALLER_SPEC = {
    "instances = 4": "instances = 1",
    "N = [50, 100]": "N = 10",
    "max_iterations = 2000": "max_iterations = 20",
    'pi = { from = 1.0, to = 10.0, count = 8, scale = "log" }': "pi = 3.0",
    "eta = [0.1, 1.0, inf]": "eta = 0.05",
}


class Block(NamedTuple):
    """A fenced block: its page, the line it starts at, what its fence says, and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands of a block of shell, without comments; in a console, those after the prompt."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.language == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [words for line in lines if (words := shlex.join(shlex.split(line, comments=True)))]


def blocks_of(path: Path) -> list[Block]:
    text = path.read_text()
    found = re.finditer(r"^( *)(```+|~~~+) *([^\n]*)\n(.*?)^\1\2 *$", text, flags=re.MULTILINE | re.DOTALL)
    return [Block(str(path.relative_to(ROOT)), 1 + text.count("\n", 0, each.start()), each[3].strip(), each[4]) for each in found]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PYTHON = {
    page: [block for block in BLOCKS if (block.language, block.page) == ("python", page)] for page in {block.page for block in BLOCKS}
}
COMMANDS = {command: block for block in BLOCKS if block.language == "sh" for command in block.commands}


def only_parsed(command: str) -> bool:
    return command.startswith("spinodal explore") or command in {shlex.join(shlex.split(each)) for each in ONLY_PARSED}


def checked_otherwise(command: str) -> bool:
    """Whether a command that is not ours names things that exist: a target of make, extras or dependencies that are declared, a script."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    match shlex.split(command):
        case ["make", *targets]:
            known = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
            return known is not None and bool(targets) and set(targets) <= set(known[1].split())
        case ["pip", "install", wanted]:
            name, extra = re.fullmatch(r"(\.|[\w-]+)(?:\[([\w-]+)\])?", wanted).groups()  # type: ignore[union-attr]
            if name in (".", "spinodal"):
                return extra is None or extra in project["optional-dependencies"]
            return any(re.match(rf"{name}\b", each) for each in project["dependencies"])
        case ["python", script, *_]:
            return (ROOT / script).is_file()
    return False


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}:{block.line}")
def test_every_block_is_run_or_checked_by_a_test(block: Block) -> None:
    """Nothing goes unclassified: a block of another kind, or a command that nobody checks, fails here."""
    if block.language == "toml":
        from spinodal.sweeps import parse_spec

        parse_spec(block.text)
    elif block.language in ("sh", "console"):
        assert block.commands
        for command in block.commands:
            assert command.startswith("spinodal ") or checked_otherwise(command), f"what is {command!r}?"
    elif block.language == "bibtex":
        import yaml

        [paper] = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
        assert paper["doi"] in block.text
        assert paper["title"] in block.text
    elif block.language == "text":
        assert block.page == ARCHITECTURE
    else:
        assert block.language == "python", f"what is a block of {block.language!r}?"
        ast.parse(block.text)


def test_what_is_not_run_is_there() -> None:
    """Exceptions that no page needs are gone, and one block is excepted by each."""
    assert [block.page for block in BLOCKS if SLURM in block.text] == ["docs/cluster.md"]
    assert {ARCHITECTURE, *QUICK} <= PYTHON.keys()
    for command in ONLY_PARSED.keys() - {"spinodal explore"}:
        assert shlex.join(shlex.split(command)) in COMMANDS


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if page in QUICK else pytest.mark.claims)
        for page, blocks in sorted(PYTHON.items())
        if blocks and page != ARCHITECTURE and not page.startswith(TUTORIALS)
    ],
)
@pytest.mark.claims
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each block by itself, as pasted."""
    if page in WITH_DATA:
        pytest.importorskip(WITH_DATA[page])
    monkeypatch.chdir(tmp_path)
    for block in PYTHON[page]:
        if SLURM not in block.text:
            exec(compile(block.text, f"{page}:{block.line}", "exec", dont_inherit=True), {"__name__": "__main__"})
    printed = capsys.readouterr().out.split()
    if page == "README.md":
        # What the comments beside the code promise.
        assert " ".join(printed).startswith("Solution: converged")
        hard = printed.index("hard")
        assert float(printed[hard + 1]) == pytest.approx(5 / 3)
        assert printed[hard + 2].startswith("3.58361")
        nominal, calibrated = (float(printed[printed.index(name) + 1]) for name in ("nominal", "calibrated"))
        assert calibrated < nominal / 20


def test_the_cluster_for_slurm_starts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its scheduler does, and what it would submit asks for what the text says. No job is submitted while there is no work."""
    [block] = [block for block in BLOCKS if SLURM in block.text]
    monkeypatch.setattr("builtins.input", lambda prompt: "")
    names: dict[str, Any] = {"__name__": "__main__"}
    try:
        exec(compile(block.text, block.page, "exec", dont_inherit=True), names)
        assert capsys.readouterr().out.startswith("tcp://")
        script = names["cluster"].job_script()
        for line in ("#SBATCH -p gpu", "#SBATCH -t 04:00:00", "#SBATCH --gres=gpu:1"):
            assert line in script
    finally:
        if "cluster" in names:
            names["cluster"].close()


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    """Where readers stand: with measurements of their own, and the spec of the guide, made small."""
    import spinodal as sp

    problem = sp.Problem.sparse(alpha=0.5, pi=10.0, rho=0.1, noise_variance=1e-8)
    np.savetxt(tmp_path / "measurements.csv", sp.sample(problem, 40, seed=1).observed.Y, delimiter=",")
    random = np.random.default_rng(0)
    table = random.normal(size=(80, 1)) * random.normal(size=6) + 0.1 * random.normal(size=(80, 6))
    np.savetxt(tmp_path / "table.csv", np.where(random.random(table.shape) < 0.1, np.nan, table), delimiter=",")
    [spec] = [block.text for block in BLOCKS if block.language == "toml"]
    for old, new in SMALLER_SPEC.items():
        assert old in spec
        spec = spec.replace(old, new)
    (tmp_path / "amp.toml").write_text(spec)
    return tmp_path


@pytest.mark.claims
def test_commands_run(spinodal_command: Callable[..., Done], workplace: Path) -> None:
    """Every command of every page, once, in the order of the pages; files that it is told to write are there after it."""
    run = [command for command in COMMANDS if command.startswith("spinodal ") and not only_parsed(command)]
    for command in [*run, "spinodal reproduce fig3 --fast --out out"]:
        words = shlex.split(command)[1:]
        done = spinodal_command(*words)
        assert done.code == 0, f"{command}: {done.err}"
        for option in ("--out", "--report"):
            if option in words:
                assert (workplace / words[words.index(option) + 1]).exists(), command
    [hard] = [command for command in run if command.startswith("spinodal theory")]  # the pages agree on one
    assert "hard" in spinodal_command(*shlex.split(hard)[1:]).out


@pytest.mark.slow
def test_commands_that_take_minutes_run(spinodal_command: Callable[..., Done], tmp_path: Path) -> None:
    done = spinodal_command(*["reproduce", "all", "--fast", "--out", "out"])
    assert done.code == 0, done.err
    assert len(list((tmp_path / "out").glob("*.png"))) >= 4


@pytest.mark.claims
def test_commands_with_workers_of_their_own_run(spinodal_command: Callable[..., Done], workplace: Path) -> None:
    """Four workers that the command starts; then a scheduler whose workers come when there is work."""
    from distributed import LocalCluster

    assert spinodal_command(*shlex.split(DASK)[1:]).code == 0
    first = workplace / "sweep"
    first.rename(workplace / "first")
    with LocalCluster(n_workers=0, threads_per_worker=1, dashboard_address=None, silence_logs="ERROR") as cluster:
        cluster.adapt(minimum=0, maximum=2, interval="100ms")
        assert not cluster.workers
        done = spinodal_command(*shlex.split(SCHEDULER.replace("tcp://10.0.0.1:8786", cluster.scheduler_address))[1:])
    assert done.code == 0, done.err
    for name in ("first", "sweep"):
        status = json.loads(spinodal_command("sweep", "status", name, "--json").out)
        assert status["finished"] == status["points"] > 0
        assert "failed" not in status["statuses"]


@pytest.mark.parametrize("command", [command for command in COMMANDS if only_parsed(command)])
def test_commands_that_are_not_run_have_the_right_words(command: str) -> None:
    from spinodal.cli.app import app

    node: Any = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while hasattr(node, "commands"):
        node, words = node.commands[words[0]], words[1:]
    node.make_context("spinodal", words)


def test_consoles_show_what_is_printed(spinodal_command: Callable[..., Done], tmp_path: Path) -> None:
    """The one console there is shows a file being refused: line 7, column 3 is no number."""
    [block] = [block for block in BLOCKS if block.language == "console"]
    rows = [["1.5"] * 4 for _ in range(8)]
    rows[6][2] = "n.d."
    (tmp_path / "measurements.csv").write_text("\n".join(map(",".join, rows)))
    [command] = block.commands
    done = spinodal_command(*shlex.split(command)[1:])
    assert done.code == 2
    assert (done.out + done.err).split() == block.text.split("\n", 1)[1].split()


def test_links_lead_somewhere() -> None:
    """Also those from the README, and to headings. Pages of the gallery are made from the examples when the site is built."""
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", page.read_text()):
            there = (page.parent / target).resolve() if target else page
            made = there.parent.name == "gallery" and (ROOT / "examples" / f"{there.stem}.py").is_file()
            made = made or there == ROOT / "docs" / "changelog.md"
            assert made or there.exists(), f"{page.name} links to {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", there.read_text(), flags=re.MULTILINE)
                assert anchor in {slug(heading) for heading in headings}, f"{page.name} links to {target}#{anchor}"


def slug(heading: str) -> str:
    """The address of a heading, as the site has it."""
    return slugify(re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading), "-")
