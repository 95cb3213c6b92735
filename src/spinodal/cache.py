"""Compiled functions kept on disk, so that a new process need not compile them again."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# "0" turns the cache off; anything else is the directory to use.
VARIABLE = "SPINODAL_CACHE"
_OFF = ("0", "off", "no", "false")
# The oldest files go when there are more bytes than this. JAX's own limit needs the package filelock, and locks every lookup.
_MOST_BYTES = 2**30
# So much is left after that, for otherwise every process would find a file too many.
_KEPT_SHARE = 0.75
# XLA writes lines of warnings on loading compiled code; this lets only fatal ones through. JAX itself sets a lower level when it is
# imported, which a process started by another one inherits.
_LEVEL, _QUIET, _BY_JAX = "TF_CPP_MIN_LOG_LEVEL", "3", "1"


def enable_cache(directory: str | Path | None = None) -> Path | None:
    """Keep what JAX compiles in `directory`, and use what is there. Returns the directory, or None if there is no cache.

    By default the directory is the one that the environment variable SPINODAL_CACHE names (0 means no cache), or else `spinodal/jax` in
    the user's cache directory ($XDG_CACHE_HOME or ~/.cache). A cache that JAX uses already is kept unless you name a directory.

    The files are code, so nobody else may write them: a new directory gets mode 700, and one that belongs to someone else or that others
    can write is refused with a warning. Where nothing can be written there is no cache and no error. The oldest files go above 1 GiB.

    XLA writes lines about the processor on the terminal when it loads compiled code. Call this before JAX is imported, and it keeps them
    to itself, unless the environment variable TF_CPP_MIN_LOG_LEVEL says otherwise.

    Examples:
        >>> import spinodal as sp
        >>> directory = sp.enable_cache()  # what is compiled from now on is there for the next process
    """
    keep_quiet()
    import jax

    if directory is None and jax.config.jax_compilation_cache_dir:
        return Path(jax.config.jax_compilation_cache_dir)
    ready = ready_directory(directory)
    if ready is not None:
        from jax.experimental.compilation_cache import compilation_cache

        for name, value in settings(ready).items():
            jax.config.update(name, value)
        # JAX decides once in a process whether there is a cache, at the first compilation.
        compilation_cache.reset_cache()
    return ready


def keep_quiet() -> None:
    """Keep XLA's warnings about compiled code off the terminal; after JAX is imported it is too late. What the user has set stays."""
    if "jax" not in sys.modules and os.environ.get(_LEVEL, _BY_JAX) == _BY_JAX:
        os.environ[_LEVEL] = _QUIET


def settings(directory: Path) -> dict[str, Any]:
    """JAX's settings for a cache in this directory. In capitals they are environment variables, read when JAX is first imported."""
    return {
        "jax_compilation_cache_dir": str(directory),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }


def for_children() -> dict[str, str]:
    """Environment variables by which a process started by this one shares its cache, and loads from it quietly."""
    import jax

    if not jax.config.jax_compilation_cache_dir:
        return {}
    said = os.environ.get(_LEVEL, _BY_JAX)
    shared = {name.upper(): str(getattr(jax.config, name)) for name in settings(Path())}
    return {_LEVEL: _QUIET if said == _BY_JAX else said, **shared}


def ready_directory(directory: str | Path | None = None) -> Path | None:
    """The directory of the cache, made and pruned; None if there is to be none, or if it can't be used safely. Does not import JAX."""
    path = default_directory() if directory is None else Path(directory)
    if path is None:
        return None
    try:
        path = path.expanduser().absolute()
        # Both levels are ours alone: whoever can write the upper one can replace the lower.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        danger = _danger(path)
        if danger is None and os.access(path, os.R_OK | os.W_OK | os.X_OK):
            _prune(path)
            return path
    except (OSError, RuntimeError):  # no home, a read-only disk, a file in the way
        return None
    if danger is not None:
        warnings.warn(
            f"Compiled code is not kept, since {danger}; set {VARIABLE} to a directory that only you can write, or to 0.", stacklevel=3
        )
    return None


def default_directory() -> Path | None:
    """Where SPINODAL_CACHE says, or else in the user's cache directory; None if the cache is off or there is no home."""
    said = os.environ.get(VARIABLE, "").strip()
    if said:
        return None if said.lower() in _OFF else Path(said)
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # A relative path there counts as none, by the XDG specification.
        return (base if base.is_absolute() else Path.home() / ".cache") / "spinodal" / "jax"
    except RuntimeError:
        return None


def _danger(path: Path) -> str | None:
    """Why someone else could put code into the directory, in words; None if nobody could."""
    if not hasattr(os, "geteuid"):  # on Windows the user's profile is private
        return None
    own, above = path.stat(), path.parent.stat()
    if own.st_uid != os.geteuid():
        return f"{str(path)!r} belongs to someone else"
    if own.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write {str(path)!r}"
    anyone = above.st_mode & stat.S_IWOTH and not above.st_mode & stat.S_ISVTX
    if above.st_uid not in (os.geteuid(), 0) or anyone:
        return f"others can replace {str(path)!r}"
    return None


def _prune(path: Path) -> None:
    """Remove the files that were not used for longest, if there are too many bytes."""
    found = sorted(_files(path), reverse=True)
    total = sum(size for _, size, _ in found)
    if total <= _MOST_BYTES:
        return
    for _, size, file in reversed(found):
        if total <= _KEPT_SHARE * _MOST_BYTES:
            break
        file.unlink(missing_ok=True)
        total -= size


def _files(path: Path) -> Iterator[tuple[float, int, Path]]:
    """When each file was last used, its size, and where it is."""
    for folder, _, names in os.walk(path):
        for name in names:
            file = Path(folder, name)
            try:
                about = file.lstat()
            except OSError:  # another process removed it
                continue
            yield max(about.st_atime, about.st_mtime), about.st_size, file
