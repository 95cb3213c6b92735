"""What is handed to users agrees with itself: versions, dependencies, the long description, the files around the package.

`make release` builds the archives and tries them; nothing is built here.
"""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import spinodal

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import release  # noqa: E402
from long_description import without_relative_addresses  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Names that conda has for what the index of Python calls otherwise.
IN_CONDA = {"matplotlib": "matplotlib-base"}


def test_every_place_has_the_same_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    [recipe] = re.findall(r'set version = "(.*)"', (ROOT / "recipe" / "meta.yaml").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest is not None
    assert {citation["version"], recipe, newest[1]} == {spinodal.__version__}


def test_the_citation_leads_to_the_paper() -> None:
    [paper] = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    assert paper["doi"] == "10.1109/ISIT.2013.6620308"
    assert [author["family-names"] for author in paper["authors"]] == ["Krzakala", "Mézard", "Zdeborová"]
    assert paper["doi"] in (ROOT / "README.md").read_text()


def test_the_recipe_asks_for_what_the_package_asks_for() -> None:
    text = re.sub(r"{{.*?}}", "x", re.sub(r"{%.*%}", "", (ROOT / "recipe" / "meta.yaml").read_text()))
    asked = dict(each.split(" ", 1) for each in yaml.safe_load(text)["requirements"]["run"])
    wanted = {"python": PROJECT["requires-python"]}
    for each in PROJECT["dependencies"]:
        name, numbers = re.fullmatch(r"([\w-]+)(.*)", each).groups()  # type: ignore[union-attr]
        wanted[IN_CONDA.get(name, name)] = numbers
    assert asked == wanted


def test_the_constraints_pin_every_dependency_within_what_is_allowed() -> None:
    from packaging.requirements import Requirement

    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.lower().split("==") for line in lines)
    extras = PROJECT["optional-dependencies"]
    asked = PROJECT["dependencies"] + [each for extra in ("sklearn", "dask", "parquet", "explorer") for each in extras[extra]]
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(pinned[requirement.name.lower()]), requirement


def test_the_extra_all_has_every_extra_that_users_want() -> None:
    extras = PROJECT["optional-dependencies"]
    [every] = extras["all"]
    named = set(re.findall(r"\w+", every)) - {"spinodal"}
    assert named == extras.keys() - {"all", "cuda", "docs", "bench", "dev"}


def test_a_wheel_without_its_marks_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "spinodal-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(
            "spinodal-0.dist-info/METADATA", "Name: spinodal\n\n![a picture](docs/a.png) ![another](https://example.org/b.png)\n"
        )
    faults = release.faults_of(wheel)
    assert len(faults) == len(release.SHIPPED) + 1
    assert "docs/a.png" in faults[-1]


def test_the_long_description_has_no_address_that_only_a_clone_has() -> None:
    text = without_relative_addresses((ROOT / "README.md").read_text())
    assert not re.search(r"\]\((?!https?:)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    assert without_relative_addresses("![a](b.png) [c](d.md) [e](https://f.org)") == "*Picture in the repository: a.* c [e](https://f.org)"


def test_the_workflow_runs_what_contributors_run() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands == [".ci/run", "make release"]
    lowest = PROJECT["requires-python"].removeprefix(">=")
    promised = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d", each)]
    assert jobs["release"]["strategy"]["matrix"]["python"] == promised
    assert promised[0] == lowest


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.stem)
def test_issue_templates_are_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= form.keys()
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    assert all({"id", "attributes"} <= part.keys() and "label" in part["attributes"] for part in fields)
