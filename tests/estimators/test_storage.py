"""Files of estimators: what is saved comes back, a failed save leaves the old file, and bad files are refused in one sentence."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import spinodal as sp
from spinodal import files
from spinodal.estimators import storage

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
ATOMS, FEATURES = 3, 6
FITTED = ("components_", "components_var_", "scales_", "scales_var_", "mean_")
SHARES = "reproducibility_"


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    codes = rng.normal(size=(60, ATOMS)) * (rng.random((60, ATOMS)) < 0.3)
    values = codes @ rng.normal(size=(ATOMS, FEATURES)) + 0.1 * rng.normal(size=(60, FEATURES))
    return pd.DataFrame(values, columns=[f"sensor {k}" for k in range(FEATURES)])


@pytest.fixture(scope="module")
def model(data: pd.DataFrame) -> sp.DictionaryLearner:
    return sp.DictionaryLearner(ATOMS, max_iter=0, refine_iter=3, random_state=0, callback=print).fit(data)


@pytest.fixture(scope="module")
def content(model: sp.DictionaryLearner, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    model.save(path)
    return path.read_bytes()


def same(one: Any, other: Any) -> bool:
    """Whether two estimators have the same attributes, but for the callback."""
    mine, yours = ({name: value for name, value in vars(each).items() if name != "callback"} for each in (one, other))
    try:
        np.testing.assert_equal(mine, yours)
    except AssertionError:
        return False
    return all(mine[name].dtype == yours[name].dtype for name in FITTED)


def refused(path: Path, content: bytes | None = None, cls: Any = sp.DictionaryLearner) -> str:
    """The one sentence that a file is refused with."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(sp.InputError, match=rf"^path must be a file written by {cls.__name__}\.save, but ") as error:
        cls.load(path)
    assert error.value.__cause__ is None
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")
    return str(error.value)


def forged(content: bytes, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
    """The file with its header and arrays changed, and checksums that are right."""
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    made = io.BytesIO()
    np.savez(made, header=np.asarray(json.dumps(header)), **arrays)
    return made.getvalue()


def test_a_fitted_model_comes_back_exactly(model: Any, data: pd.DataFrame, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(content)
    again = sp.DictionaryLearner.load(tmp_path / "model")
    assert same(again, model)
    assert again.callback is None
    np.testing.assert_array_equal(again.transform(data), model.transform(data))
    assert list(again.feature_names_in_) == list(data.columns)


def test_single_precision_a_matrix_and_set_output_come_back(data: pd.DataFrame, tmp_path: Path) -> None:
    nominal = np.random.default_rng(0).normal(size=(ATOMS, FEATURES))
    model = sp.BlindCalibration(nominal.tolist(), np.float64(0.3), max_iter=0, refine_iter=1, center=True).set_output(transform="pandas")
    model.fit(data.to_numpy(np.float32)).save(tmp_path / "model.npz")
    again = sp.BlindCalibration.load(tmp_path / "model.npz")
    assert same(again, model)
    np.testing.assert_array_equal(again.matrix, nominal)
    assert list(again.transform(data.to_numpy(np.float32)).columns) == ["blindcalibration0", "blindcalibration1", "blindcalibration2"]


def test_one_that_is_not_fitted_comes_back(tmp_path: Path) -> None:
    model = sp.BlindCalibration(eta=0.2, density=0.1)
    model.save(tmp_path / "model.npz")
    assert vars(sp.BlindCalibration.load(tmp_path / "model.npz")) == vars(model)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    model: Any, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.npz"
    model.save(path)

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    for name, failing in ((storage.np, "savez"), (files.os, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(name, failing, full if failing == "savez" else lambda *paths: full(io.BytesIO()))
            with pytest.raises(sp.InputError, match="No space left on device"):
                sp.DictionaryLearner(2).save(path)
        assert path.read_bytes() == content
        assert [each.name for each in tmp_path.iterdir()] == ["model.npz"]
    with pytest.raises(sp.InputError, match="can't be written"):
        model.save(tmp_path / "nowhere" / "model.npz")
    with pytest.raises(sp.InputError, match=r"can't be saved: random_state is neither a number nor a word"):
        sp.DictionaryLearner(2, random_state=np.random.RandomState(0)).save(path)
    assert path.read_bytes() == content


def test_save_replaces_what_a_link_points_to(model: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "model.npz")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert same(sp.DictionaryLearner.load(tmp_path / "model.npz"), model)


def test_files_cut_short_are_refused(content: bytes, tmp_path: Path) -> None:
    for length in np.linspace(0, len(content) - 1, 60).astype(int):
        refused(tmp_path / "model.npz", content[:length])


def test_flipped_bits_are_noticed_or_change_nothing(model: Any, content: bytes, tmp_path: Path) -> None:
    """Dates and the like are not under a checksum; nothing reads them."""
    path, rng = tmp_path / "model.npz", np.random.default_rng(0)
    noticed = 0
    for place in rng.integers(len(content), size=200):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            again = sp.DictionaryLearner.load(path)
        except sp.InputError:
            noticed += 1
        else:
            assert same(again, model)
    assert noticed > 100


@pytest.mark.parametrize("name", [*FITTED, "history_.evidence", "feature_names_in_"])
def test_arrays_of_other_shapes_and_kinds_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    for other in (
        lambda value: value[:-1] if name != "history_.evidence" else value[None],
        lambda value: value[..., None],
        lambda value: np.zeros(0, value.dtype) if name != "history_.evidence" else np.zeros((0, 2)),
        lambda value: np.full(value.shape, 1 + 2j),
        lambda value: np.full(value.shape, b"word"),
        lambda value: np.ones(value.shape, bool),
        lambda value: np.ones(value.shape, np.float16),
    ):
        assert name.split(".")[0] in refused(
            tmp_path / "model.npz", forged(content, lambda header, arrays, other=other: arrays.update({name: other(arrays[name])}))
        )


@pytest.mark.parametrize("name", FITTED)
def test_missing_arrays_and_numbers_that_no_fit_has_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    assert f"{name} is missing" in refused(tmp_path / "model.npz", forged(content, lambda header, arrays: arrays.pop(name)))
    for value in (np.nan, np.inf, *([-1.0] if "var" in name else [])):
        changed = forged(content, lambda header, arrays, value=value: arrays[name].flat.__setitem__(0, value))
        assert name in refused(tmp_path / "model.npz", changed)


def test_shares_of_runs_may_be_unknown_for_some_components_and_nothing_else(model: Any, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(forged(content, lambda header, arrays: arrays[SHARES].__setitem__(slice(2), (0.5, np.nan))))
    np.testing.assert_array_equal(sp.DictionaryLearner.load(path).reproducibility_, [0.5, np.nan, np.nan])
    for value in (-0.1, 1.1, np.inf):
        changed = forged(content, lambda header, arrays, value=value: arrays[SHARES].__setitem__(0, value))
        assert SHARES in refused(path, changed)


@pytest.mark.parametrize(
    "values",
    [
        {"noise_variance_": -1.0},
        {"noise_variance_": float("nan")},
        {"noise_variance_": 10**400},
        {"density_": 1.0},
        {"density_": "many"},
        {"slab_variance_": 0.0},
        {"slab_mean_": None},
        {"n_iter_": -1},
        {"n_iter_": True},
        {"n_features_in_": FEATURES + 1},
        {"n_features_in_": 2.0},
        {"status_": "fine"},
        {"status_": ["converged"]},
        {"converged_": 1},
        {"density": [0.1, 0.2]},
        {"own_density": {"a": 1}},
        {"own_density": "yes"},
        {"own_density_": 1},
        {"fast": 2**70},
        {"fast": "yes"},
        {"center": 0.5},
        {"transform": "mine"},
        {"__class__": "int"},
        {"_sklearn_output_config": {"transform": 1}},
        {"_sklearn_output_config": "pandas"},
    ],
)
def test_forged_values_are_refused(values: dict[str, Any], content: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "model.npz", forged(content, lambda header, arrays: header["values"].update(values)))


def test_other_headers_and_other_files_are_refused(model: Any, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    assert "holds a DictionaryLearner" in refused(path, content, sp.BlindCalibration)
    assert "holds something else" in refused(path, forged(content, lambda header, arrays: header.update({"class": ["\n"]})))
    assert "another version" in refused(path, forged(content, lambda header, arrays: header.update(layout=1)))
    for key in ("layout", "class", "values"):
        assert "is damaged" in refused(path, forged(content, lambda header, arrays, key=key: header.pop(key)))
    refused(path, forged(content, lambda header, arrays: header.update(values=[1])))
    refused(path, forged(content, lambda header, arrays: arrays.update(density=np.ones(3))))
    refused(path, forged(content, lambda header, arrays: arrays.update(more=np.ones(3))))
    refused(path, b"nothing")
    refused(path, pickle.dumps(model.get_params()["n_components"]))
    assert "No such file" in refused(tmp_path / "absent.npz")
    assert "can't be read" in refused(tmp_path)


def test_nothing_is_unpickled_or_unfolded(content: bytes, tmp_path: Path) -> None:
    path, touched = tmp_path / "model.npz", tmp_path / "touched"

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (touched,))

    refused(path, forged(content, lambda header, arrays: arrays.update(components_=np.array([[Trap()]], dtype=object))))
    refused(path, pickle.dumps(Trap()))
    assert not touched.exists()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:  # a thousand times as large when it is unfolded
        file.writestr("header.npy", b"\0" * 10_000_000)
    assert "is damaged" in refused(path)
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"shape": (10**15,), "fortran_order": False, "descr": "<f8"})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.npy", huge.getvalue())
    assert "is damaged" in refused(path)
