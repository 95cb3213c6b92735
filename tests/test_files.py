"""Measurements from files: what is written comes back, and what is wrong is refused in one sentence that says where."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import xarray
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import spinodal as sp
from spinodal.io import read, read_measurements
from spinodal.io.text import read_table

RNG = np.random.default_rng(0)
Y = RNG.normal(size=(4, 15))
F_PRIME = RNG.normal(size=(4, 3))
MASK = RNG.random(Y.shape) < 0.8
FEW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def saved(path: Path, values: np.ndarray, delimiter: str, **options: Any) -> Path:
    np.savetxt(path, values, delimiter=delimiter, fmt="%.17g", **options)
    return path


def write(path: Path, **named: Any) -> Path:
    if path.suffix == ".npz":
        np.savez(path, **named)
    elif path.suffix == ".mat":
        scipy.io.savemat(path, named)
    else:
        dims = {"Y": ("measurement", "signal"), "F_prime": ("measurement", "atom"), "mask": ("measurement", "signal")}
        variables = {name: (dims.get(name, [f"{name}_{k}" for k in range(np.ndim(value))]), value) for name, value in named.items()}
        xarray.Dataset(variables).to_netcdf(path, engine="scipy")
    return path


# Text


@FEW
@given(
    values=arrays.arrays(
        float, arrays.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.floats(-1e15, 1e15, allow_subnormal=False)
    ),
    delimiter=st.sampled_from([",", ";", "\t", " ", ", ", " ; "]),
    missing=st.sampled_from(["NaN", "NA", "nan", "n/a", "null", ""]),
    share=st.floats(0, 0.6),
    header=st.booleans(),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    data=st.data(),
)
def test_a_matrix_written_as_text_comes_back(
    tmp_path: Path, values: np.ndarray, delimiter: str, missing: str, share: float, header: bool, newline: str, encoding: str, data: Any
) -> None:
    hidden = np.random.default_rng(data.draw(st.integers(0, 1000))).random(values.shape) < share
    if delimiter == " " and missing == "":
        missing = "NA"  # blanks between blanks can't be counted
    if values.shape[1] == 1 or values.shape[0] == 1:
        hidden[:] = False  # a line that is empty is no line, and one line has no other to tell the delimiter from
    hidden[0, -1] = False  # a last column that is empty throughout is a delimiter at the end of the lines
    rows = [[missing if h else repr(float(v)) for v, h in zip(row, gone, strict=True)] for row, gone in zip(values, hidden, strict=True)]
    names = [[f"signal{k}é" for k in range(values.shape[1])]] if header else []
    path = tmp_path / "y.csv"
    path.write_bytes("".join(delimiter.join(row) + newline for row in names + rows).encode(encoding))
    table = read_table(path)
    np.testing.assert_array_equal(table.values, np.where(hidden, np.nan, values))
    assert table.lines == list(range(1 + header, 1 + header + len(rows)))


@settings(FEW, max_examples=300)
@given(content=st.binary(max_size=200) | st.text(alphabet='0123456789.,;\t\n\r "#eE+-_naNA', max_size=120).map(str.encode))
@example(content=b'"' + b"1" * 200_000)
@example(content=b"1,2\n\x00,3\n")
@example(content=b"\xff\xfe\x00")
@example(content=b"\n\n# nothing\n")
@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".mat", ".nc"])
def test_any_bytes_give_a_matrix_or_a_sentence(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(content)
    try:
        found = read_measurements(path).observed
    except sp.InputError as error:
        complaint = str(error)
    else:
        assert found.Y.ndim == 2
        assert 0 not in found.Y.shape
        return
    assert repr(str(path)) in complaint
    assert complaint.endswith(".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# a comment, with commas\n1 2\n\n3\t4\n".replace("\t", " "), [[1, 2], [3, 4]]),
        ('"a","b"\n"1","2"\n"3",4\n', [[1, 2], [3, 4]]),
        (",0,1\n0,1.5,2\n1,3,4\n", [[1.5, 2], [3, 4]]),  # as pandas writes it, index and all
        ('"","V1","V2"\n"first",1.5,2\n"second",3,4\n', [[1.5, 2], [3, 4]]),  # as R does
        ("1,2\n,4\n", [[1, 2], [np.nan, 4]]),
        ("a\n1\n2\n", [[1], [2]]),
        ("1;2;3", [[1, 2, 3]]),
    ],
)
def test_what_other_programs_write(tmp_path: Path, text: str, expected: list[list[float]]) -> None:
    (tmp_path / "y.txt").write_text(text)
    np.testing.assert_array_equal(read_table(tmp_path / "y.txt").values, expected)


def test_missing_entries_become_the_mask_and_signals_may_be_rows(tmp_path: Path) -> None:
    path = saved(tmp_path / "y.tsv", np.where(MASK, Y, np.nan).T, "\t")
    observed, truth, parameters, names = read_measurements(path, transpose=True)
    np.testing.assert_array_equal(observed.Y, np.where(MASK, Y, np.nan))
    np.testing.assert_array_equal(observed.mask, MASK)
    assert observed.F_prime is None
    assert truth is None
    assert parameters == {}
    assert names == (None, None)
    assert read_measurements(saved(tmp_path / "y.csv", Y, ",")).observed.mask is None


# Named arrays


WORDS = np.array([f"sensor {k}" for k in range(len(Y))])
YEARS = np.arange(1990, 1990 + Y.shape[1])


@pytest.mark.parametrize("keys", [("row_names", "column_names"), ("rows", "columns")])
def test_names_in_npz_files(tmp_path: Path, keys: tuple[str, str]) -> None:
    path, years = tmp_path / "y.npz", tuple(map(str, YEARS))
    np.savez(path, Y=Y, **dict(zip(keys, (WORDS, YEARS), strict=True)))
    assert read_measurements(path).names == (tuple(WORDS), years)
    assert read_measurements(path, transpose=True).names == (years, tuple(WORDS))
    np.savez(path, A=Y, **{keys[0]: WORDS.astype("S")})
    assert read_measurements(path).names == (tuple(WORDS), None)
    np.savez(path, Y=Y, rows=np.array(4), columns=np.arange(3))  # a number of rows, and some numbers
    assert read_measurements(path).names == (None, None)
    np.savez(path, Y=Y, B=Y[:, :2], **dict(zip(keys, (WORDS, YEARS.astype(str)), strict=True)))
    assert read_measurements(path, array="B").names == (tuple(WORDS), None)  # the columns of Y are others
    np.savez(path, Y=Y, **{keys[1]: WORDS[:2]})
    with pytest.raises(sp.InputError, match=rf"^{keys[1]} must have a name for each column of Y, but in .* it has 2 for 15 columns\.$"):
        read_measurements(path)
    np.savez(path, Y=Y, **{keys[0]: WORDS.astype(object)})
    with pytest.raises(sp.InputError, match=r"pickled objects, which are never loaded; .*names as np\.array\(names, str\)\.$"):
        read_measurements(path)


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".nc"])
def test_named_arrays(tmp_path: Path, suffix: str) -> None:
    F, X = RNG.normal(size=(4, 3)), RNG.normal(size=(3, 15))
    path = write(tmp_path / f"i{suffix}", Y=Y, F_prime=F_PRIME, mask=MASK, F=F, X=X, rho=0.25, eta=np.inf, other=RNG.normal(size=(9, 9)))
    observed, truth, parameters, _ = read_measurements(path)
    for found, expected in ((observed.Y, Y), (observed.F_prime, F_PRIME), (observed.mask, MASK), (truth.F, F), (truth.X, X)):
        np.testing.assert_array_equal(found, expected)
    assert parameters == {"density": 0.25, "eta": np.inf}


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".nc"])
def test_the_only_matrix_is_Y_and_others_are_named(tmp_path: Path, suffix: str) -> None:
    np.testing.assert_array_equal(read_measurements(write(tmp_path / f"one{suffix}", data=Y, rho=0.1)).observed.Y, Y)
    several = write(tmp_path / f"two{suffix}", first=Y, second=2 * Y, cube=np.zeros((2, 3, 4)))
    np.testing.assert_array_equal(read_measurements(several, array="second").observed.Y, 2 * Y)
    with pytest.raises(sp.InputError, match=r"first \(4 x 15\).*second \(4 x 15\).*cube \(2 x 3 x 4\).*--array NAME"):
        read_measurements(several)
    with pytest.raises(sp.InputError, match=r"'third' was given and there is first"):
        read_measurements(several, array="third")
    with pytest.raises(sp.InputError, match=r"Y must be an M x P matrix.*\(2, 3, 4\)"):
        read_measurements(several, array="cube")


def test_transposed_files_are_turned_as_a_whole(tmp_path: Path) -> None:
    observed = read_measurements(write(tmp_path / "i.npz", Y=Y.T, F_prime=F_PRIME.T, mask=MASK.T), transpose=True).observed
    for found, expected in zip(observed, (Y, F_PRIME, MASK), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_one_array_sparse_matrices_and_NaN_as_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.where(MASK, Y, np.nan))
    np.testing.assert_array_equal(read_measurements(tmp_path / "y.npy").observed.mask, MASK)
    write(tmp_path / "y.nc", Y=np.where(MASK, Y, np.nan))
    np.testing.assert_array_equal(read_measurements(tmp_path / "y.nc").observed.mask, MASK)
    full = np.arange(60.0).reshape(4, 15)
    scipy.io.savemat(tmp_path / "y.mat", {"A": scipy.sparse.csc_matrix(full)})
    np.testing.assert_array_equal(read_measurements(tmp_path / "y.mat").observed.Y, full)


def test_NaN_without_a_mask_is_refused_where_a_mask_could_be(tmp_path: Path) -> None:
    """It may be a computation that failed."""
    for suffix in (".npz", ".mat"):
        with pytest.raises(sp.InputError, match=r"Y must come with a mask .* row \d, column \d+ of .* is NaN"):
            read_measurements(write(tmp_path / f"y{suffix}", Y=np.where(MASK, Y, np.nan)))


@pytest.mark.parametrize("suffix", [".npz", ".mat", ".nc"])
def test_parameters_by_their_words_or_their_letters(tmp_path: Path, suffix: str) -> None:
    for names in (("density", "noise_variance"), ("rho", "delta")):
        path = write(tmp_path / f"y{suffix}", Y=Y, **dict(zip(names, (0.25, 0.5), strict=True)))
        assert read_measurements(path).parameters == {"density": 0.25, "noise_variance": 0.5}


def test_a_matrix_of_NaN_says_the_number_of_atoms_only(tmp_path: Path) -> None:
    measured = read_measurements(write(tmp_path / "y.npz", Y=Y, F_prime=np.full((4, 7), np.nan), eta=np.inf))
    assert measured.observed.F_prime is None
    assert measured.parameters == {"n_atoms": 7, "eta": np.inf}


# Names


def test_headers_and_labels_become_names(tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(",mon,tue\nfirst,1.5,2\nsecond,3,4\n")
    assert read_measurements(tmp_path / "y.csv").names == (("first", "second"), ("mon", "tue"))
    assert read_measurements(tmp_path / "y.csv", transpose=True).names == (("mon", "tue"), ("first", "second"))
    (tmp_path / "y.csv").write_text("a,b\n1,2\n3,4\n")
    assert read_measurements(tmp_path / "y.csv").names == (None, ("a", "b"))
    (tmp_path / "y.csv").write_text(",0,1\n0,1.5,2\n1,3,4\n")  # numbers that pandas gives to what has no name
    assert read_measurements(tmp_path / "y.csv").names == (None, None)


def test_labels_of_a_netcdf_file_become_names(tmp_path: Path) -> None:
    labels = {"sensor": [f"s{k}" for k in range(4)], "day": np.arange(15)}
    xarray.Dataset({"Y": (("sensor", "day"), Y)}, labels).to_netcdf(tmp_path / "y.nc", engine="scipy")
    names = read_measurements(tmp_path / "y.nc").names
    assert names.rows == ("s0", "s1", "s2", "s3")
    assert names.columns == tuple(map(str, range(15)))


# Refusals


def text_file(content: str | bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "y.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / "y.csv"

    return make


def array_file(value: Any, name: str = "y.npy", cut: int | None = None) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        buffer = io.BytesIO()
        np.save(buffer, value) if name.endswith("npy") else np.savez(buffer, Y=value)
        (folder / name).write_bytes(buffer.getvalue()[:cut])
        return folder / name

    return make


def placed(name: str, content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def folder_named(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).mkdir()
        return folder / name

    return make


def forged_header(folder: Path) -> Path:
    """An array that says it has 2^45 rows: more than can be addressed."""
    with (folder / "y.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (2**45, 1)})
    return folder / "y.npy"


LINE = ",".join(["1.5"] * 12)
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "wrong delimiter": (text_file("1:2\n3:4\n"), r"commas, semicolons, tabs or blanks, but line 1, column 1 of '.*y.csv' holds '1:2'"),
    "decimal commas": (text_file("1,5;2,5\n3,5;4,5\n"), r"decimal points.*line 1, column 1 of .* holds '1,5'"),
    "text": (text_file("1,2\n3,four\n"), r"line 2, column 2 of .* holds 'four'"),
    "prose": (text_file("Dear Sir,\n\nthis is not data.\n"), "line 3, column 1 of .* holds 'this is not data.'"),
    "names only": (text_file("a,b\n"), "names and no numbers"),
    "ragged": (text_file("a,b,c\n1,2,3\n\n4,5\n"), r"line 4 of .* has 2 fields, line 1 3"),
    "ragged from the start": (text_file("1,2\n3\n"), "line 2 of .* has 1 fields, line 1 2"),
    "empty text": (text_file(""), "is empty"),
    "blank lines": (text_file("\n \n"), "is empty"),
    "infinite": (text_file("1,2\n3,inf\n"), r"line 2, column 2 of .* holds inf"),
    "huge": (text_file("#\n1,-3e17\n3,4\n"), r"at most 1e\+15.*line 2, column 2 of .* holds -3e\+17"),
    "column without entries": (text_file("1,,3\n4,NA,6\n"), r"column 2 of .* has none"),
    "row without entries": (text_file("1,2,3\n,,\n"), r"line 2 of .* has none"),
    "constant row": (text_file(f"{LINE}\n" + ",".join(map(str, range(12))) + "\n"), r"line 1 of .* is 1.5 throughout"),
    "underscores": (text_file("1,2\n1_000,3\n"), "holds '1_000'"),
    "3-D": (array_file(np.zeros((2, 3, 4))), r"shape is \(2, 3, 4\)"),
    "vector": (array_file(np.zeros(3)), r"shape is \(3,\)"),
    "zero rows": (array_file(np.zeros((0, 4))), r"shape is \(0, 4\)"),
    "complex": (array_file(Y + 0j), "real numbers.*complex128"),
    "words": (array_file(Y.astype(str)), "real numbers.*<U"),
    "pickled": (array_file(np.array([[{}, None]])), "pickled objects, which are never loaded"),
    "pickled in an archive": (array_file(np.array([[{}, None]]), "y.npz"), "pickled objects, which are never loaded"),
    "a pickle": (placed("y.npy", pickle.dumps(Y)), r"whole \.npy file"),
    "truncated": (array_file(Y, cut=300), r"whole \.npy file"),
    "truncated archive": (array_file(Y, "y.npz", cut=300), r"whole \.npz file"),
    "empty .npy": (placed("y.npy", b""), "is empty"),
    "empty .mat": (placed("y.mat", b""), r"whole \.mat file"),
    "empty .nc": (placed("y.nc", b""), r"whole \.nc file"),
    "NetCDF-4": (placed("y.nc", b"\x89HDF\r\n\x1a\n" + bytes(64)), r"NetCDF-4; install|whole \.nc file"),
    "MATLAB 7.3": (placed("y.mat", b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n" + bytes(64)), r"'-v7'"),
    "a forged size": (forged_header, "ends before that"),
    "a directory": (folder_named("y.csv"), "is a directory"),
    "missing": (lambda folder: folder / "nowhere.csv", "no file .*nowhere.csv"),
    "unknown ending": (placed("y.xlsx", b"PK"), r"must end in one of \.npz, \.npy, \.csv.*y\.xlsx"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused_in_one_sentence_that_says_where(tmp_path: Path, what: str) -> None:
    make, words = REFUSED[what]
    path = make(tmp_path)
    with pytest.raises(sp.InputError, match=words) as complaint:
        read_measurements(path)
    sentence = str(complaint.value)
    assert path.name in sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence


def test_places_are_named_as_in_the_file_when_signals_are_its_rows(tmp_path: Path) -> None:
    path = text_file("a,b\n" + "\n".join(f"7,{k}" for k in range(12)))(tmp_path)
    with pytest.raises(sp.InputError, match=r"column 1 of .* is 7 throughout"):
        read_measurements(path, transpose=True)
    with pytest.raises(sp.InputError, match="array must be left out"):
        read_measurements(path, array="Y")


def test_a_few_equal_entries_may_be_chance(tmp_path: Path) -> None:
    path = saved(tmp_path / "y.csv", np.ones((3, read._NO_ACCIDENT - 1)), ",")
    assert read_measurements(path).observed.Y.shape == (3, 9)


def test_memory_that_runs_out_is_not_a_bad_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "y.npz", Y=Y)

    def no_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(np.lib.format, "read_array", no_memory)
    with pytest.raises(sp.InputError, match="must fit in memory"):
        read_measurements(path)
