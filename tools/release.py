"""What is handed to users, made and tried: an sdist and a wheel, their metadata, and the wheel installed where nothing else is.

    python tools/release.py                                        # with this Python
    python tools/release.py --python python3.12 --python python3.13

Everything goes to dist/; nothing is uploaded. For each Python the wheel is installed in a new environment with the versions of
constraints.txt, and the commands and calls of a first minute are tried there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from email import message_from_string
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
# A table with two atoms behind it, solved from a file: a few seconds, most of them compilation.
FIRST_TABLE = """
import numpy as np
import spinodal as sp

problem = sp.Problem.sparse(alpha=1.0, pi=20.0, rho=0.2, noise_variance=1e-4)
np.savetxt("measurements.csv", sp.sample(problem, 8, seed=1).observed.Y, delimiter=",")
"""
# What must be in the wheel besides the modules.
SHIPPED = ("spinodal/py.typed", "spinodal/explorer/assets/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="a Python to try the wheel with; may be given several times")
    chosen = parser.parse_args().python or [sys.executable]
    wheel = build()
    for python in chosen:
        begun = time.perf_counter()
        try_wheel(wheel, python)
        print(f"{wheel.name} works with {python} ({time.perf_counter() - begun:.0f} s)")


def build() -> Path:
    """Make both archives, check their metadata, and return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)])
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(DIST.iterdir()))])
    [wheel] = DIST.glob("*.whl")
    faults = list(faults_of(wheel))
    if faults:
        raise SystemExit(f"{wheel.name}: " + "; ".join(faults))
    return wheel


def faults_of(wheel: Path) -> list[str]:
    """What a wheel lacks, or what its long description points to and will not be there."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        described = message_from_string(archive.read(metadata).decode()).get_payload()
    assert isinstance(described, str)
    missing = [f"{part} is not in it" for part in SHIPPED if not any(name.startswith(part) for name in names)]
    pictures = [
        f"the description shows {target}, which is not an address" for target in re.findall(r"!\[[^\]]*\]\(((?!https?:)[^)]+)\)", described)
    ]
    return missing + pictures


def try_wheel(wheel: Path, python: str) -> None:
    """Install the wheel in a new environment, away from the sources, and go through a user's first minute."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([python, "-m", "venv", "new"], folder)
        inside = folder / "new" / "bin"
        run([str(inside / "python"), "-m", "pip", "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), str(wheel)], folder)
        command = str(inside / "spinodal")
        run([command, "--version"], folder)
        run([command, "theory", "--alpha", "0.5", "--pi", "3", "--density", "0.2", "--eta", "1", "--noise-variance", "1e-6"], folder)
        run([str(inside / "python"), "-c", FIRST_TABLE], folder)
        run([command, "solve", "measurements.csv", "--n-atoms", "8", "--report", "report.html"], folder)


def run(words: list[str], folder: Path = ROOT) -> None:
    """Run a command without the sources on its path; show what it printed if it fails."""
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with exit code {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
