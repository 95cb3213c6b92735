"""Ways to spoil a file, a text or a value, all drawn from one random generator, so that a case can be made again."""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

# Numbers and words that are odd in one way or another.
WORDS = (
    "",
    " ",
    "nan",
    "inf",
    "-inf",
    "-1",
    "0",
    "-0.0",
    "1e400",
    "1e308",
    "5e-324",
    "1e-300",
    "1_000",
    "1,5",
    "0x10",
    "1e999999999",
    "9" * 400,
    "9" * 5000,
    str(2**31),
    str(2**63),
    str(2**64),
    "-999",
    "NA",
    "null",
    "None",
    "True",
    "[]",
    "{}",
    "'",
    '"',
    "#",
    ":",
    "::",
    "1:2",
    "1:2:3:4",
    "0.1:0.2:1e9",
    ",",
    ",,,",
    "\x00",
    "\x1b[31m",
    "[/red]",
    "../../up",
    "/dev/null",
    "/proc/self/mem",
    ".",
    "..",
    "~",
    "$(id)",
    "%s%n",
    "=1+1",
    "١٢",
    "−5",
    "½",
    "日本",
    "\udcff",
    "a" * 300,
    "--help",
    "-h",
    "--",
    "-",
    "auto",
)
# The same as JSON has them.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    2**64,
    -(2**70),
    10**400,
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1",
    "inf",
    "nan",
    "a" * 10_000,
    "\x00",
    "\ud800",
    [],
    [[]],
    [1, 2],
    {},
    {"a": 1},
    {"__class__": "x"},
    [None] * 1000,
)
_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")


class Trap:
    """Whoever unpickles this makes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return open, (str(self.canary), "w")


def pickled(canary: Path) -> bytes:
    return pickle.dumps(Trap(canary))


def spoiled_bytes(rng: random.Random, data: bytes) -> bytes:
    """One to three changes of the bytes."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = _spoil(rng, bytearray(data))
    return data


def _spoil(rng: random.Random, data: bytearray) -> bytes:
    size = len(data)
    start, length = rng.randrange(size + 1), rng.choice((1, 2, 4, 8, 64, size // 3))
    kind = rng.randrange(8)
    if kind == 0 and size:
        data[rng.randrange(size)] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[start:]
    elif kind == 2:
        del data[start : start + length]
    elif kind == 3:
        data[start : start + length] = bytes([rng.choice((0, 0xFF, 0x7F, 0x80, 0x0A, 0x2C))]) * len(data[start : start + length])
    elif kind == 4:
        data[start:start] = rng.randbytes(length)
    elif kind == 5:
        data[start:start] = data[start : start + length]
    elif kind == 6:
        data[start : start + 4] = rng.choice((0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0, 1)).to_bytes(4, "little")
    else:
        data[start:start] = rng.choice(WORDS).encode("utf-8", "surrogatepass")
    return bytes(data)


def spoiled_text(rng: random.Random, text: str) -> str:
    """One to three numbers, lines or characters changed."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_NUMBER.finditer(text))
        kind, lines = rng.randrange(6), text.split("\n")
        line = rng.randrange(len(lines))
        if kind <= 2 and places:
            at = rng.choice(places)
            text = text[: at.start()] + rng.choice(WORDS) + text[at.end() :]
        elif kind == 3:
            text = "\n".join(lines[:line] + lines[line + 1 :])
        elif kind == 4:
            text = "\n".join([*lines[:line], lines[line], *lines[line:]])
        else:
            place = rng.randrange(len(text) + 1)
            text = text[:place] + rng.choice(WORDS) + text[place + rng.randrange(3) :]
    return text


def spoiled_value(rng: random.Random, value: Any) -> Any:
    """A value of JSON with one part replaced, left out or added."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {name: each for name, each in value.items() if name != key}
        return {**value, (key if rng.random() < 0.9 else rng.choice(WORDS)): spoiled_value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], spoiled_value(rng, value[place]), *value[place + rng.randrange(2) :]]
    return rng.choice(VALUES)


def odd_array(rng: random.Random, like: Any) -> Any:
    """An array that is nearly the right one: of another type, shape or content."""
    array = np.array(like)
    numbers = array if array.dtype.kind in "fiub" else np.arange(6.0).reshape(2, 3)
    worst = rng.choice((np.nan, np.inf, -np.inf, 1e300, -1.0, 5e-324, -0.0, 1e20, 0.0, 2.0**62))
    flat = numbers.astype(float).ravel()
    one = flat.copy()
    one[rng.randrange(max(1, one.size)) : one.size : max(1, one.size)] = worst
    kinds = (
        lambda: numbers.astype(rng.choice(("f2", "f4", ">f8", "i1", "u8", "?", "c16", "g", "S5", "U5", "M8[s]", "m8[ns]"))),
        lambda: np.asfortranarray(numbers),
        lambda: numbers[None],
        lambda: flat,
        lambda: numbers[..., :0],
        lambda: numbers[..., :1],
        lambda: numbers.reshape(-1, 1),
        lambda: np.array(worst),
        lambda: np.full_like(flat, worst).reshape(numbers.shape),
        lambda: one.reshape(numbers.shape),
        lambda: np.zeros(numbers.shape, [("a", "f8"), ("b", "i4")]),
        lambda: np.array(rng.choice(("", "[]", "{", "null", "[" * 5000, json.dumps(rng.choice(VALUES[:12]))))),
        lambda: np.zeros((0, 0)),
        lambda: np.zeros((3,) * 5),
    )
    with np.errstate(all="ignore"):
        return rng.choice(kinds)()


def spoiled_npz(rng: random.Random, data: bytes, canary: Path) -> bytes:
    """An .npz file with an array changed, left out, renamed, pickled or said to be larger than it is; checksums are right."""
    with np.load(io.BytesIO(data)) as file:
        arrays = {name: file[name] for name in file.files}
    name, kind = rng.choice(list(arrays)), rng.randrange(8)
    made = io.BytesIO()
    if kind <= 3:
        arrays[name] = odd_array(rng, arrays[name])
    elif kind == 4:
        del arrays[name]
    elif kind == 5:
        arrays[rng.choice(("Y", "F_prime", "mask", "../up", "x" * 300, "header", "ended_0000_sound", "leaf_000"))] = arrays.pop(name)
    elif kind == 6:
        arrays[name] = np.array([Trap(canary)], dtype=object)
    save = np.savez_compressed if rng.random() < 0.2 else np.savez
    save(made, **{name: np.asarray(value) for name, value in arrays.items()})
    if kind != 7:
        return made.getvalue()
    with zipfile.ZipFile(made, "a", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for content in rng.sample((pickled(canary), npy_header(rng, numbers_only=False), b"", b"\x93NUMPY\x01\x00", b"hello"), 2):
            archive.writestr(rng.choice((f"{name}.npy", name, "extra.npy")), content)
    return made.getvalue()


def npy_header(rng: random.Random, *, numbers_only: bool) -> bytes:
    """The beginning of an .npy file that promises what does not follow, or what nobody could hold."""
    shapes: tuple[Any, ...] = ((10**15, 8), (2**40, 2**40), (-1, 5), (), (0, 10**18), (3, 4, 5), (10**9,), (1,) * 40)
    descriptions: tuple[Any, ...] = ("<f8", ">f4", "<c16", "|b1", "<i8") if numbers_only else ("<f8", "|O", "|V100", "|S0", [("a", "<f8")])
    header = {"descr": rng.choice(descriptions), "fortran_order": rng.random() < 0.3, "shape": rng.choice(shapes)}
    text = f"{header!r:<117}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rng.randbytes(rng.choice((0, 8, 480)))
