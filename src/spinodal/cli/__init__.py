"""The command line: thin, no mathematics. Heavy imports happen inside the commands, so that --help is quick."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from .app import app
from .startup import seldom_look_for_garbage
from .sweep_app import app as sweep

app.add_typer(sweep, name="sweep")

__all__ = ["app", "main"]

BAD_INPUT = 2


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line (`words` instead of sys.argv) and exit; bad input is one sentence on standard error and exit code 2."""
    import typer

    from ..errors import INTERRUPTED, InputError

    seldom_look_for_garbage()
    _print_anything()
    try:
        # The name is ours also under `python -m spinodal`; completion goes by it.
        code = app(None if words is None else list(words), prog_name="spinodal", standalone_mode=False)
    except InputError as error:
        code = _complain(str(error))
    except typer.Exit as stop:
        code = stop.exit_code
    except MemoryError as error:
        code = _complain(f"there is not enough memory for this size ({error or 'no more to be had'}).")
    except (typer.Abort, KeyboardInterrupt):
        print("spinodal: interrupted.", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        code = 1
    except Exception as error:
        # Typer's own complaints (unknown or missing options) carry format_message; everything else is a bug and keeps its traceback.
        if "RESOURCE_EXHAUSTED" in str(error):  # XLA's word
            code = _complain("there is not enough memory on the device for this size.")
        elif "Unable to initialize backend" in str(error):  # JAX's words
            code = _complain(f"JAX_PLATFORMS must name a kind of device that is here, but {os.environ.get('JAX_PLATFORMS')!r} was given.")
        elif hasattr(error, "format_message"):
            code = _complain(error.format_message())
        else:
            raise
    sys.exit(code if isinstance(code, int) else 0)


def _print_anything() -> None:
    """Names of files may hold bytes that are no text; printing them must not end a command that has done its work.

    Streams that were closed are opened to nowhere, or else the next file that is opened would take their place.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(message: str) -> int:
    from ..errors import printable

    sentence = printable(" ".join(message.split()))
    print(f"spinodal: {sentence}{'' if sentence.endswith(('.', '?')) else '.'}", file=sys.stderr)
    return BAD_INPUT
