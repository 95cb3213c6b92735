"""Tables as users write them: each is read right, or refused in a sentence, or warned of with the option that helps."""

from __future__ import annotations

import gzip
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest

import spinodal as sp
from draws import draw
from spinodal.inference.starts import automatic
from spinodal.io import read_measurements
from unsolved import unsolved

M, P = 12, 40
Y = np.round(np.random.default_rng(3).normal(size=(M, P)), 6)
ROWS = tuple(f"sensor {k}" for k in range(M))
COLUMNS = tuple(f"day {k}" for k in range(P))
TIMES = tuple(str(time) for time in pandas.date_range("2024-03-01 00:00:01", periods=M, freq="90s"))
HIDDEN = np.random.default_rng(4).random(Y.shape) < 0.1
COUNTS = np.random.default_rng(5).poisson(4, size=Y.shape)


class Case(NamedTuple):
    """What a file holds; what must come of it: the entries, the names, or a sentence; and what then helps."""

    content: str | bytes
    values: np.ndarray | None = Y
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    refused: str | None = None
    options: dict[str, Any] = {}  # noqa: RUF012
    name: str = "y.csv"


def frame(values: Any = Y, rows: Any = None, columns: Any = None) -> pandas.DataFrame:
    return pandas.DataFrame(values, index=rows, columns=columns)


def csv(*options: Any, values: Any = Y, rows: Any = None, columns: Any = None, **more: Any) -> str:
    return frame(values, rows, columns).to_csv(*options, **more)


def lines(text: str, change: Callable[[int, str], str]) -> str:
    return "".join(change(k, line) + "\n" for k, line in enumerate(text.splitlines()))


def parquet(table: pandas.DataFrame) -> bytes:
    file = io.BytesIO()
    table.to_parquet(file)
    return file.getvalue()


NAMED = {"rows": ROWS, "columns": COLUMNS}
PLAIN = csv(header=False, index=False)
HEADED = csv(index=False, columns=COLUMNS)
CASES: dict[str, Case] = {
    "no names": Case(PLAIN),
    "pandas with its index": Case(csv()),
    "pandas without its index": Case(HEADED, columns=COLUMNS),
    "pandas with names": Case(csv(**NAMED), **NAMED),
    "R's write.table": Case(
        lines(csv(**NAMED, sep=" ", quoting=2), lambda k, line: line[3:] if k == 0 else line).replace("sensor ", "s").replace("day ", "d"),
        rows=tuple(f"s{k}" for k in range(M)),
        columns=tuple(f"d{k}" for k in range(P)),
        name="y.txt",
    ),
    "index named id": Case(
        csv(index_label="id", columns=COLUMNS, rows=np.arange(M) * 7 % 12 + 100),
        rows=tuple(str(k * 7 % 12 + 100) for k in range(M)),
        columns=COLUMNS,
    ),
    "index named id above numbers": Case(csv(index_label="id", rows=range(1, M + 1)), rows=tuple(map(str, range(1, M + 1)))),
    "text index under a name": Case(csv(index_label="sensor", **NAMED), **NAMED),
    "text index without a header": Case(csv(header=False, rows=ROWS), rows=ROWS),
    "integer header": Case(csv(index=False)),
    "years for a header": Case(csv(index=False, columns=range(1980, 1980 + P)), columns=tuple(map(str, range(1980, 1980 + P)))),
    "years after a text index": Case(
        csv(index_label="sensor", rows=ROWS, columns=range(1980, 1980 + P)), rows=ROWS, columns=tuple(map(str, range(1980, 1980 + P)))
    ),
    "years above counts": Case(
        csv(values=COUNTS, index_label="sensor", rows=ROWS, columns=range(1980, 1980 + P)),
        COUNTS.astype(float),
        rows=ROWS,
        columns=tuple(map(str, range(1980, 1980 + P))),
    ),
    "a unit behind a number": Case("1.5 mV,2,3\n4,5,6\n", values=None, refused=r"line 1, column 1 of .* holds '1.5 mV'\.$"),
    "date and time in columns of their own": Case(
        "2024-01-01 00:00 1.5 2\n2024-01-02 00:00 2.5 3\n",
        values=None,
        refused=r"line 1, column 2 of .* holds '00:00', and the column no numbers; leave it out, or give --index-col 2",
    ),
    "a word in one line of the first column": Case(
        "1,2\nn.d.,3\n5,6\n",
        values=np.array([[1, 2], [np.nan, 3], [5, 6]]),
        options={"na": ["n.d."]},
        refused=r"line 2, column 1 of .* holds 'n\.d\.'; give --na='n\.d\.' if",
    ),
    "European decimals": Case(
        csv(sep=";", decimal=",", index=False, columns=COLUMNS),
        columns=COLUMNS,
        options={"decimal": ","},
        refused=r"line 2, column 1 of .* holds '-?\d,\d+'; give --decimal , if commas are decimal\.$",
    ),
    "European decimals, tabs": Case(
        csv(sep="\t", decimal=",", **NAMED), **NAMED, options={"decimal": ","}, refused="--decimal ,", name="y.tsv"
    ),
    "European decimals, blanks": Case(
        csv(sep=" ", decimal=",", header=False, index=False), options={"decimal": ","}, refused="--decimal ,"
    ),
    "European decimals in quotes": Case(
        lines(PLAIN, lambda _, line: ",".join(f'"{field}"' for field in line.replace(".", ";").split(","))).replace(";", ","),
        options={"decimal": ","},
        refused="--decimal ,",
    ),
    "semicolons": Case(csv(sep=";", **NAMED), **NAMED),
    "tabs": Case(csv(sep="\t", **NAMED), **NAMED, name="y.tsv"),
    "quotes": Case(csv(quoting=1, **NAMED), **NAMED),
    "delimiters within quotes": Case(
        csv(rows=[f"a, {k}" for k in range(M)], columns=[f"b;{k}" for k in range(P)]),
        rows=tuple(f"a, {k}" for k in range(M)),
        columns=tuple(f"b;{k}" for k in range(P)),
    ),
    "BOM": Case(b"\xef\xbb\xbf" + HEADED.encode(), columns=COLUMNS),
    "BOM before an empty corner": Case(b"\xef\xbb\xbf" + csv(**NAMED).encode(), **NAMED),
    "CRLF": Case(csv(**NAMED, lineterminator="\r\n"), **NAMED),
    "units row": Case(
        lines(HEADED, lambda k, line: line + "\n" + ",".join(["mV"] * P) if k == 0 else line),
        refused=r"line 2, column 1 of .* holds 'mV'; put # before lines that hold no data, such as units\.$",
        values=None,
    ),
    "units row commented out": Case(
        lines(HEADED, lambda k, line: line + "\n#" + ",".join(["mV"] * P) if k == 0 else line), columns=COLUMNS
    ),
    "timestamp column": Case(csv(index_label="when", rows=TIMES, columns=COLUMNS), rows=TIMES, columns=COLUMNS),
    "timestamp column in the middle": Case(
        lines(HEADED, lambda k, line: ",".join([line.split(",")[0], ("when", *TIMES)[k], *line.split(",")[1:]])),
        rows=TIMES,
        columns=COLUMNS,
        options={"index_col": "when"},
        refused=r"and the column no numbers; leave it out, or give --index-col 2 if",
    ),
    "seconds under the name timestamp": Case(
        csv(index_label="timestamp", rows=1_700_000_000 + np.arange(M) ** 2, columns=COLUMNS),
        rows=tuple(str(1_700_000_000 + k**2) for k in range(M)),
        columns=COLUMNS,
    ),
    "-999, said to be missing": Case(
        csv(values=np.where(HIDDEN, -999, Y), columns=COLUMNS, index=False),
        np.where(HIDDEN, np.nan, Y),
        columns=COLUMNS,
        options={"na": ["-999"]},
    ),
    "1e20": Case(
        csv(values=np.where(HIDDEN, 1e20, Y), header=False, index=False),
        np.where(HIDDEN, np.nan, Y),
        options={"na": ["1e20"]},
        refused=r"holds 1e\+20; give --na 1e\+20 if that means a missing entry\.$",
    ),
    "masked, as NumPy prints it": Case(
        csv(values=np.where(HIDDEN, np.nan, Y), header=False, index=False, na_rep="--"),
        np.where(HIDDEN, np.nan, Y),
        options={"na": ["--"]},
        refused=r"holds '--'; give --na='--' if that means a missing entry\.$",
    ),
    "two words for missing": Case(
        csv(values=np.where(HIDDEN, np.nan, Y), columns=COLUMNS, index=False, na_rep="n.d.").replace("n.d.", "<LOD", 3),
        np.where(HIDDEN, np.nan, Y),
        columns=COLUMNS,
        options={"na": ["n.d.", "<LOD"]},
        refused=r"holds '<LOD'; give --na='<LOD' if",
    ),
    "empty where missing": Case(csv(values=np.where(HIDDEN, np.nan, Y), **NAMED), np.where(HIDDEN, np.nan, Y), **NAMED),
    "categorical first": Case(
        csv(index_label="group", rows=["treated", "control"] * (M // 2), columns=COLUMNS),
        rows=("treated", "control") * (M // 2),
        columns=COLUMNS,
        options={"index_col": "1"},
        refused=r"column 1 of .* holds 'treated' more than once; leave the column out if these are categories, or give --index-col 1",
    ),
    "categorical last": Case(
        lines(HEADED, lambda k, line: f"{line},{('group', *['treated', 'control'] * M)[k]}"),
        values=None,
        refused=rf"line 2, column {P + 1} of .* holds 'treated', and the column no numbers; leave it out",
    ),
    "duplicated header": Case(
        lines(HEADED, lambda k, line: line.replace("day 3,", "day 2,")),
        columns=tuple("day 2" if name == "day 3" else name for name in COLUMNS),
    ),
    "header again between the lines": Case(
        lines(HEADED, lambda k, line: line + "\n" + HEADED.splitlines()[0] if k == 5 else line),
        values=None,
        refused=r"line 7, column 1 of .* holds 'day 0', which repeats the first line; leave that line out\.$",
    ),
    "trailing delimiter": Case(lines(PLAIN, lambda _, line: line + ",")),
    "trailing delimiter, header too": Case(lines(csv(**NAMED, sep=";"), lambda _, line: line + ";"), **NAMED),
    "trailing delimiter, but not in the header": Case(lines(HEADED, lambda k, line: line + "," * (k > 0)), columns=COLUMNS),
    "trailing delimiter in the header only": Case(lines(HEADED, lambda k, line: line + "," * (k == 0)), columns=COLUMNS),
    "comments": Case(
        "# measured in March, 2024\n" + lines(HEADED, lambda k, line: line + "\n# a break; then on" if k == 4 else line), columns=COLUMNS
    ),
    "a title above": Case(
        "Measurements of March\n" + HEADED, values=None, refused=r"equally long lines, but line 2 of .* has 40 fields, line 1 1\.$"
    ),
    "gz": Case(gzip.compress(csv(**NAMED).encode()), **NAMED, name="y.csv.gz"),
    "gz of tabs": Case(gzip.compress(csv(**NAMED, sep="\t").encode()), **NAMED, name="Y.TSV.GZ"),
    "gz cut short": Case(
        gzip.compress(PLAIN.encode())[:-200], values=None, refused="must be a whole gzip file, but .* was cut short", name="y.csv.gz"
    ),
    "gz of nothing but zeros": Case(
        gzip.compress(bytes(2**27)), values=None, refused="unpacks to more than 100 times its size", name="y.csv.gz"
    ),
    "thousands": Case(
        csv(values=1000 * Y, sep=";", decimal=",", header=False, index=False).replace("1", "1.", 1),
        values=None,
        options={"decimal": ","},
        refused=r"decimal commas and no points",
    ),
    "parquet": Case(parquet(frame(Y, ROWS, COLUMNS)), **NAMED, name="y.parquet"),
    "parquet without names": Case(parquet(frame(Y, None, [str(k) for k in range(P)])), name="y.parquet"),
    "parquet with missing entries": Case(
        parquet(frame(np.where(HIDDEN, np.nan, Y), None, COLUMNS)), np.where(HIDDEN, np.nan, Y), columns=COLUMNS, name="y.parquet"
    ),
    "parquet with a column of words": Case(parquet(frame(Y, ROWS, COLUMNS).reset_index(names="sensor")), **NAMED, name="y.parquet"),
    "parquet with categories": Case(
        parquet(frame(Y, None, COLUMNS).assign(group=["a", "b"] * (M // 2))),
        values=None,
        name="y.parquet",
        refused=r"row 1 of column 'group' of .* holds 'a'; leave the column out, give --index-col 41",
    ),
    "parquet cut short": Case(parquet(frame(Y, ROWS, COLUMNS))[:500], values=None, refused=r"whole \.parquet file", name="y.parquet"),
    "all integers": Case(csv(values=COUNTS, **NAMED), COUNTS.astype(float), **NAMED),
}


def written(folder: Path, case: Case) -> Path:
    path = folder / case.name
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    return path


@pytest.mark.parametrize("what", CASES)
def test_read_right_or_refused_with_what_helps(tmp_path: Path, what: str) -> None:
    case = CASES[what]
    path = written(tmp_path, case)
    if case.refused is not None:
        with pytest.raises(sp.InputError, match=case.refused) as complaint:
            read_measurements(path, **(case.options if case.values is None else {}))
        sentence = str(complaint.value)
        assert sentence.endswith(".")
        assert "\n" not in sentence
        assert path.name in sentence
    if case.values is not None:
        observed, _, _, names = read_measurements(path, **case.options)
        np.testing.assert_array_equal(observed.Y, case.values)
        assert (observed.mask is None) == (not np.isnan(case.values).any())
        if observed.mask is not None:
            np.testing.assert_array_equal(observed.mask, ~np.isnan(case.values))
        assert names == (case.rows, case.columns)
        turned = read_measurements(path, transpose=True, **case.options)
        np.testing.assert_array_equal(turned.observed.Y, case.values.T)
        assert turned.names == (case.columns, case.rows)


SIGNALS = draw(sp.Problem.sparse(alpha=1.0, pi=10.0, rho=0.15, noise_variance=1e-3), 12, seed=2).observed.Y
WARNED: dict[str, tuple[str, str, dict[str, Any], np.ndarray]] = {
    "an index without a name": (
        csv(values=np.column_stack([np.arange(3, 3 + len(SIGNALS)), SIGNALS]), header=False, index=False),
        r"first column of Y is 3, 4, 5, \.\.\., which looks like an index; leave that column out \(.*--index-col 1",
        {"index_col": 1},
        SIGNALS,
    ),
    "seconds without a name": (
        csv(values=np.column_stack([1_700_000_000 + np.arange(len(SIGNALS)) ** 2, SIGNALS]), header=False, index=False),
        r"first column of Y is 1700000000, 1700000001, 1700000004.*--index-col 1",
        {"index_col": 1},
        SIGNALS,
    ),
    "integer header above integers": (
        csv(values=np.round(1000 * SIGNALS).astype(int), index=False),
        r"first row of Y is 0, 1, 2, \.\.\., which looks like column numbers; leave that row out \(for the file's first line --header",
        {"header": True},
        np.round(1000 * SIGNALS),
    ),
    "rows are samples": (
        csv(values=SIGNALS.T, header=False, index=False),
        r"rows look like the signals.*--transpose",
        {"transpose": True},
        SIGNALS,
    ),
    "-999": (
        csv(values=np.where(np.random.default_rng(0).random(SIGNALS.shape) < 0.05, -999, SIGNALS), header=False, index=False),
        r"\d+ entries are -999, which looks like a mark for missing entries; write NaN instead \(--na -999 on the command line\)",
        {"na": ["-999"]},
        np.where(np.random.default_rng(0).random(SIGNALS.shape) < 0.05, np.nan, SIGNALS),
    ),
    "-999 once": (
        csv(values=np.where(np.arange(SIGNALS.size).reshape(SIGNALS.shape) == 77, -999, SIGNALS), header=False, index=False),
        r"1 entry is -999.*--na -999",
        {"na": [-999]},
        np.where(np.arange(SIGNALS.size).reshape(SIGNALS.shape) == 77, np.nan, SIGNALS),
    ),
    "duplicated header": (
        csv(values=SIGNALS, columns=["a", "b"] * 60, index=False),
        r"2 names of columns of Y occur more than once, such as 'a'",
        {},
        SIGNALS,
    ),
    "all integers": (
        csv(values=np.random.default_rng(1).poisson(3, SIGNALS.shape), header=False, index=False),
        "Y holds counts",
        {},
        np.random.default_rng(1).poisson(3, SIGNALS.shape),
    ),
    "not centred": (
        csv(values=SIGNALS + np.arange(12)[:, None], header=False, index=False),
        r"mean of Y is far from zero.*\(center=True, --center\)",
        {},
        SIGNALS + np.arange(12)[:, None],
    ),
}


def warnings(path: Path, **options: Any) -> str:
    observed, _, _, names = read_measurements(path, **options)
    model, _ = automatic(observed, density=None, noise_variance=None, eta=None)
    return "\n".join(unsolved(observed.Y, model, 12, mask=observed.mask, names=names).warnings)


@pytest.mark.parametrize("what", WARNED)
def test_warned_of_with_the_option_that_helps(tmp_path: Path, what: str) -> None:
    content, words, options, values = WARNED[what]
    (tmp_path / "y.csv").write_text(content)
    assert re.search(words, warnings(tmp_path / "y.csv"))
    np.testing.assert_allclose(read_measurements(tmp_path / "y.csv", **options).observed.Y, values, rtol=1e-15)
    if options:
        assert not re.search(words, warnings(tmp_path / "y.csv", **options))


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("y.csv", {"decimal": ":"}, r"decimal must be \. or ,, but ':' was given\."),
        ("y.csv", {"index_col": "0"}, r"index_col must be the name of a column or its number, from 1, but '0' was given\."),
        ("y.csv", {"index_col": 41}, r"index_col must be a column of FILE, but 41 was given and '.*y\.csv' has 40\."),
        (
            "y.csv",
            {"index_col": "when"},
            r"one column, but 'when' is the name of none of the columns of '.*y\.csv' \('day 0', .*, \.\.\.\)\.$",
        ),
        ("y.npy", {"index_col": 1}, r"index_col must be left out for a \.npy file, which is no table, but 1 was given\."),
        ("y.npy", {"decimal": ","}, r"decimal must be left out for a \.npy file, which is no text, but ',' was given\."),
        ("y.npy", {"na": ["n.d."]}, r"na must hold numbers only for a \.npy file, which is no table, but 'n\.d\.' was given\."),
    ],
)
def test_options_that_fit_no_file_are_refused(tmp_path: Path, name: str, options: dict[str, Any], words: str) -> None:
    (tmp_path / "y.csv").write_text(HEADED)
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(sp.InputError, match=words):
        read_measurements(tmp_path / name, **options)


def test_numbers_that_mean_missing_in_files_of_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "y.npz", Y=np.where(HIDDEN, 1e20, Y))
    observed = read_measurements(tmp_path / "y.npz", na=[1e20]).observed
    np.testing.assert_array_equal(observed.mask, ~HIDDEN)
    np.testing.assert_array_equal(observed.Y[~HIDDEN], Y[~HIDDEN])


def test_parquet_without_pyarrow_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, CASES["parquet"])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(sp.InputError, match=r"unless pyarrow is installed, but '.*' is; install spinodal\[parquet\]\.$"):
        read_measurements(path)
