"""Files that are none: pipes, devices, links in circles, closed streams; and pictures that are not what they seem."""

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import spinodal as sp
from conftest import Done
from spinodal.cli.picture_commands import read_picture
from spinodal.files import whole_file

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pipes and devices of Linux")
Run = Callable[..., Done]
SOLVE = ("--n-atoms", "3", "--max-iter", "2", "--runs", "1")
RAMP = np.linspace(20, 200, 20 * 32).reshape(20, 32)


def refused(done: Done, *words: str) -> None:
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("spinodal: ")
    assert done.err.count("\n") == 1
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("solve", "in.csv", *SOLVE),
        ("solve", "in.npz", *SOLVE),
        ("solve", "y.csv", *SOLVE, "--f-prime", "in.npy"),
        ("solve", "y.csv", *SOLVE, "--checkpoint", "in.npz"),
        ("sweep", "run", "in.toml", "--out", "out"),
        ("denoise", "in.png"),
        ("inpaint", "p.png", "--mask", "in.png"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_waited_for(run_cli: Run, tmp_path: Path, words: tuple[str, ...], kind: str) -> None:
    (tmp_path / "y.csv").write_text("1,2,4\n3,4,1\n")
    Image.fromarray(RAMP.astype(np.uint8)).save(tmp_path / "p.png")
    path = tmp_path / next(word for word in words if word.startswith("in."))
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    refused(run_cli(*words), "is a pipe or a device")


def test_models_are_not_read_from_a_device() -> None:
    with pytest.raises(sp.InputError, match="is a pipe or a device"):
        sp.DictionaryLearner.load("/dev/zero")


@pytest.mark.parametrize("name", ["circle.npz", "nowhere.npz", "pipe.npz"])
def test_nothing_is_written_through_links_that_lead_nowhere(run_cli: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "y.csv").write_text("1,2,4\n3,4,1\n")
    (tmp_path / "circle.npz").symlink_to("circle.npz")
    (tmp_path / "nowhere.npz").symlink_to("absent/folder/x.npz")
    os.mkfifo(tmp_path / "real")
    (tmp_path / "pipe.npz").symlink_to("real")
    before = sorted(os.listdir(tmp_path))
    refused(run_cli("solve", "y.csv", *SOLVE, "--out", name), "out must be a file", name)
    with pytest.raises(sp.InputError, match="can't be written"), whole_file(tmp_path / name) as temporary:
        temporary.write_bytes(b"x")
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / "real").is_fifo()


def test_a_link_to_a_file_of_another_ending_is_written_through(run_cli: Run, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text("1,2,4\n3,4,1\n")
    (tmp_path / "out.npz").symlink_to("data")
    assert run_cli("solve", "y.csv", *SOLVE, "--lenient", "--out", "out.npz").code == 0
    assert sorted(os.listdir(tmp_path)) == ["data", "out.npz", "y.csv"]
    with np.load(tmp_path / "out.npz") as saved:
        assert saved["F_mean"].shape == (2, 3)


@pytest.mark.claims
@pytest.mark.parametrize(
    ("closed", "more", "word"),
    [
        ("2>&-", {}, ""),
        ("0<&- 1>&- 2>&-", {}, ""),
        ("", {"JAX_PLATFORMS": "nonsense"}, "JAX_PLATFORMS must name a kind of device that is here, but 'nonsense' was given."),
    ],
)
def test_closed_streams_and_platforms_that_are_not_there(tmp_path: Path, closed: str, more: dict[str, str], word: str) -> None:
    (tmp_path / "y.csv").write_text("1,2,4\n3,4,1\n")
    file = "y.csv" if more else "absent.csv"
    line = f"exec {closed}; exec {sys.executable} -m spinodal --no-cache solve {file} --n-atoms 3"
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.claims
def test_a_backend_of_figures_that_is_not_there_does_not_matter(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spinodal", "diagram", "--alpha", "0.5", "--rho", "0.1:0.2:2", "--eta", "1"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "MPLBACKEND": "nonsense"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def png(width: int, height: int) -> bytes:
    """A small file of a large black picture."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes(height * (width + 1)), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def packed(image: Image.Image, kind: str, **more: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **more)
    return stream.getvalue()


GREY = Image.fromarray(RAMP.astype(np.uint8))
PICTURES: dict[str, tuple[str, bytes, str]] = {
    "bomb": ("p.png", png(12_000, 12_000), "must have at most 64 million pixels, but p.png has 12000 x 12000"),
    "larger bomb": ("p.png", png(20_000, 20_000), "must be a picture that can be read"),
    "animated": (
        "p.gif",
        packed(GREY, "GIF", save_all=True, append_images=[GREY.rotate(180)]),
        "must be one picture, but p.gif holds several",
    ),
    "pages": ("p.tif", packed(GREY, "TIFF", save_all=True, append_images=[GREY]), "must be one picture"),
    "drawing": ("p.eps", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n", "is a drawing (EPS)"),
    "cut short": ("p.jpg", packed(GREY, "JPEG")[:-40], "must be a picture that can be read"),
    "32 bits": ("p.tif", packed(Image.fromarray((RAMP * 1e5).astype(np.int32)), "TIFF"), "must have values of 8 or 16 bits"),
    "shares": ("p.tif", packed(Image.fromarray((RAMP / 255).astype(np.float32)), "TIFF"), "must have values of 8 or 16 bits"),
    "empty": ("p.png", b"", "must be a picture"),
    "one pixel": ("p.png", packed(Image.new("L", (1, 1)), "PNG"), "at least 8 x 8 pixels"),
}


@pytest.mark.parametrize("what", PICTURES)
def test_pictures_that_are_refused(run_cli: Run, tmp_path: Path, what: str) -> None:
    name, content, words = PICTURES[what]
    (tmp_path / name).write_bytes(content)
    refused(run_cli("denoise", name), words)
    assert os.listdir(tmp_path) == [name]


def test_pictures_that_are_read_right(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was held on its side
    kinds: dict[str, tuple[bytes, np.ndarray, float]] = {
        "16.png": (packed(Image.fromarray((RAMP.astype(np.uint8) * 257.0).astype(np.uint16)), "PNG"), np.floor(RAMP), 1e-9),
        "palette.png": (packed(GREY.convert("P"), "PNG"), np.floor(RAMP), 1e-9),
        "alpha.png": (packed(GREY.convert("LA"), "PNG"), np.floor(RAMP), 1e-9),
        "float.tif": (packed(Image.fromarray(RAMP.astype(np.float32)), "TIFF"), RAMP, 1e-4),
        "turned.jpg": (packed(GREY, "JPEG", exif=turned, quality=100), np.rot90(RAMP, -1), 3.0),
        "cmyk.jpg": (packed(GREY.convert("CMYK"), "JPEG", quality=100), RAMP, 5.0),
    }
    for name, (content, values, error) in kinds.items():
        (tmp_path / name).write_bytes(content)
        found = read_picture("FILE", str(tmp_path / name))
        found = found if found.ndim == 2 else found[:, :, 0]
        assert found.shape == values.shape, name
        assert np.abs(found - values).max() <= error, name


def test_the_output_is_neither_the_picture_nor_its_mask(run_cli: Run, tmp_path: Path) -> None:
    for name in ("p.png", "m.png", "p-spinodal.png"):
        GREY.save(tmp_path / name)
    refused(run_cli("inpaint", "p.png", "--mask", "m.png", "--out", "m.png"), "out must be another file")
    refused(run_cli("inpaint", "p.png", "--mask", "p-spinodal.png"), "out must be another file")
    refused(run_cli("denoise", "."), "FILE must be a file, but '.' is a directory")


def test_noise_too_small_for_single_precision_is_none() -> None:
    for sigma in (1e-1, 1e-2, 1e-3):
        np.testing.assert_array_equal(sp.images.denoise(RAMP, sigma).image, RAMP)


def test_masked_and_complex_pictures() -> None:
    with pytest.raises(sp.InputError, match="image must be finite"):
        sp.images.denoise(np.ma.array(RAMP, mask=RAMP < 30))
    with pytest.raises(sp.InputError, match="image must be an array of real numbers"):
        sp.images.denoise(RAMP + 1j)
