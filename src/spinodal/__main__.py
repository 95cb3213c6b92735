"""`python -m spinodal` is `spinodal`."""

from .cli import main

if __name__ == "__main__":
    main()
