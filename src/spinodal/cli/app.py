"""The commands and their options."""

from __future__ import annotations

from typing import Annotated

import typer

SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="spinodal",
    context_settings=SETTINGS,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Exit codes: 0 done; 2 bad input; 3 the result of solve can't be trusted (0 with --lenient); 130 interrupted. "
    "Compiled code is kept in ~/.cache/spinodal; SPINODAL_CACHE=DIR moves it, SPINODAL_CACHE=0 turns it off.",
)

Alpha = Annotated[str, typer.Option(metavar="A", help="M/N, measurements of each signal per atom.")]
Pi = Annotated[str, typer.Option(metavar="P", help="P/N, signals per atom.")]
Density = Annotated[str, typer.Option("--density", "--rho", metavar="R", help="Density of X, in (0, 1).")]
Eta = Annotated[str, typer.Option(metavar="E", help="Error of the matrix: 0 (known) to inf (dictionary learning).")]
Etas = Annotated[str, typer.Option(metavar="E1,E2,..", help="Errors of the matrix, separated by commas; inf is dictionary learning.")]
NoiseVariance = Annotated[str, typer.Option("--noise-variance", "--delta", metavar="D", help="Noise variance.")]
ChannelName = Annotated[
    str | None,
    typer.Option(
        "--channel",
        metavar="NAME[:key=value,..]",
        help="How Y comes from F X, in place of Gaussian noise: outliers, student, clipped, quantized, one-bit, binary, poisson, gains, "
        "offsets, faulty or sensors.",
    ),
]
Observed = Annotated[str, typer.Option(metavar="FRACTION", help="Fraction of the entries of Y that are observed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PictureFile = Annotated[str, typer.Argument(metavar="FILE", help="A picture: .png, .jpg, .tif or another that Pillow reads.")]
PictureOut = Annotated[str | None, typer.Option(metavar="OUT.png", help="Where to write the picture; FILE-spinodal.png if left out.")]
Seed = Annotated[int, typer.Option(metavar="S", help="Seed of whatever is random.")]
OutDir = Annotated[str, typer.Option(metavar="DIR", help="Directory for the figures and data.")]


def print_help_if_bare(context: typer.Context) -> None:
    """A command group without a command prints its help."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(__version__)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Don't keep compiled code for the next run.")] = False,
) -> None:
    """Bayes-optimal matrix factorization, Y = F X/sqrt(N) + noise: phase diagrams and message passing.

    Start with `spinodal solve FILE --n-atoms N` for your own data, `spinodal theory` for what is possible, or `spinodal demo`.
    """
    print_help_if_bare(context)
    from .startup import prepare

    prepare(use_cache=not no_cache)


@app.command()
def theory(
    alpha: Alpha,
    pi: Pi,
    density: Density,
    eta: Eta = "inf",
    noise_variance: NoiseVariance = "0",
    observed: Observed = "1",
    channel: ChannelName = None,
    json: AsJson = False,
) -> None:
    """What can be learned at one point: phase, transitions, Bayes-optimal and AMP errors, all fixed points."""
    from . import theory_commands

    theory_commands.theory(
        alpha=alpha, pi=pi, density=density, eta=eta, noise_variance=noise_variance, observed=observed, channel=channel, as_json=json
    )


@app.command()
def diagram(
    alpha: Alpha,
    density: Annotated[str, typer.Option("--density", "--rho", metavar="LO:HI:N", help="Densities of X.")],
    out: OutDir = "out",
    eta: Etas = "0.01,0.1,1,inf",
    noise_variance: NoiseVariance = "0",
    observed: Observed = "1",
    channel: ChannelName = None,
    json: AsJson = False,
) -> None:
    """The phase diagram over density and pi (figure 1): PNG, SVG, CSV and NetCDF."""
    from . import theory_commands

    theory_commands.diagram(
        alpha=alpha, density=density, eta=eta, noise_variance=noise_variance, observed=observed, channel=channel, out=out, as_json=json
    )


@app.command()
def curve(
    alpha: Alpha,
    density: Density,
    pi: Annotated[str, typer.Option(metavar="LO:HI:N", help="Signals per atom, P/N.")],
    out: OutDir = "out",
    eta: Etas = "0.01,1,inf",
    noise_variance: NoiseVariance = "0",
    observed: Observed = "1",
    channel: ChannelName = None,
    json: AsJson = False,
) -> None:
    """Bayes-optimal and AMP errors against pi (figure 2): PNG, SVG, CSV and NetCDF."""
    from . import theory_commands

    theory_commands.curve(
        alpha=alpha,
        density=density,
        pi=pi,
        eta=eta,
        noise_variance=noise_variance,
        observed=observed,
        channel=channel,
        out=out,
        as_json=json,
    )


@app.command()
def sample(
    n: Annotated[int, typer.Option("--n", metavar="N", help="Number of atoms, N.")],
    alpha: Alpha,
    pi: Pi,
    density: Density,
    out: Annotated[str, typer.Option(metavar="FILE.npz", help="Where to write the instance.")],
    eta: Eta = "inf",
    noise_variance: NoiseVariance = "0",
    observed: Observed = "1",
    channel: ChannelName = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed; the same seed gives the same instance.")] = 0,
    json: AsJson = False,
) -> None:
    """Draw an instance: arrays Y, F_prime, F, X and the parameters."""
    from . import theory_commands

    theory_commands.sample_file(
        n=n,
        alpha=alpha,
        pi=pi,
        density=density,
        eta=eta,
        noise_variance=noise_variance,
        observed=observed,
        channel=channel,
        seed=seed,
        out=out,
        as_json=json,
    )


_LEARNED = "A number, or auto to learn it. If left out, the file's value is used, or it is learned."


@app.command()
def solve(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Y (rows: measurements) in .npz, .npy, .csv, .tsv, .txt, .csv.gz, .parquet, .mat or .nc.")
    ],
    out: Annotated[
        str | None,
        typer.Option(metavar="SOL.npz", help="File (.npz, .nc or .csv) for F, X and their variances; FILE-spinodal.npz if left out."),
    ] = None,
    n_atoms: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Number of atoms; not needed with F_prime. Of several (32,48,64), the one with the highest evidence is kept."
        ),
    ] = None,
    density: Annotated[str | None, typer.Option("--density", "--rho", metavar="R", help=f"Density of X. {_LEARNED}")] = None,
    noise_variance: Annotated[
        str | None,
        typer.Option(
            "--noise-variance",
            "--delta",
            metavar="D",
            help=f"Noise variance. {_LEARNED} Or rows, to learn one for each row; or a file with one for each row, column or entry.",
        ),
    ] = None,
    eta: Annotated[str | None, typer.Option(metavar="E", help=f"Error of F_prime. {_LEARNED}")] = None,
    channel: ChannelName = None,
    f_prime: Annotated[str | None, typer.Option(metavar="FILE", help="F_prime (M x N) in a file of its own.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help="amp, relaxed-bp, mu-amp, big-amp or lasso.")] = "amp",
    array: Annotated[str | None, typer.Option(metavar="NAME", help="The array to use as Y, if none is called Y.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="Signals are the rows of the file, not the columns.")] = False,
    decimal: Annotated[str, typer.Option(metavar="MARK", help="In text, the mark before the decimals: . or ,")] = ".",
    index_col: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column with the names of the rows, by its name or its number from 1.")
    ] = None,
    na: Annotated[list[str] | None, typer.Option(metavar="VALUE", help="A value that means a missing entry; may be given again.")] = None,
    header: Annotated[bool, typer.Option("--header", help="The first line holds names, even if they are numbers.")] = False,
    center: Annotated[
        bool | None,
        typer.Option(
            "--center/--no-center",
            help="Subtract the mean of each row first and keep it with the result, or don't. If left out, the data decide.",
        ),
    ] = None,
    report: Annotated[str | None, typer.Option(metavar="REPORT.html", help="Where to write a page about the result.")] = None,
    atom_shape: Annotated[
        tuple[int, int] | None, typer.Option(metavar="H W", help="Atoms are images of this shape, in the report.")
    ] = None,
    max_iterations: Annotated[int, typer.Option("--max-iterations", "--max-iter", metavar="T", help="Most iterations.")] = 10_000,
    runs: Annotated[
        int | None,
        typer.Option(metavar="K", help="Maximum number of runs from independent starts when there is no F_prime; 6 if left out."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Seed of whatever is random.")] = 0,
    float32: Annotated[bool, typer.Option("--float32", help="Compute in single precision.")] = False,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="STATE.npz", help="Save the state here, and resume from it if the file exists.")
    ] = None,
    every: Annotated[int, typer.Option(metavar="K", help="Iterations between two saved states.")] = 100,
    devices: Annotated[int | None, typer.Option(metavar="D", help="Divide the signals among this many devices.")] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Exit code 0 also when the result can't be trusted.")] = False,
    json: AsJson = False,
) -> None:
    """Recover F and X from a file of measurements, with their uncertainties.

    Parameters that neither the options nor the file say are learned from the data. The exit code is 3 if the result can't be trusted: the
    run did not settle, or settled on something that is not a solution, that the data contradict, or that other runs do not confirm. The
    files are written all the same.
    """
    from . import solve_command

    solve_command.solve(
        file=file,
        out=out,
        n_atoms=n_atoms,
        given={"density": density, "noise_variance": noise_variance, "eta": eta},
        channel=channel,
        f_prime=f_prime,
        method=method,
        array=array,
        transpose=transpose,
        layout={"decimal": decimal, "index_col": index_col, "na": na or (), "header": header},
        center="auto" if center is None else center,
        report=report,
        atom_shape=atom_shape,
        max_iterations=max_iterations,
        runs=runs,
        seed=seed,
        float32=float32,
        checkpoint=checkpoint,
        every=every,
        devices=devices,
        lenient=lenient,
        as_json=json,
    )


@app.command()
def complete(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A table (rows: samples) in .csv, .tsv, .txt, .csv.gz, .parquet, .npz, ...")],
    out: Annotated[str | None, typer.Option(metavar="OUT.csv", help="Where to write the table; FILE-filled.csv if left out.")] = None,
    intervals: Annotated[
        str | None, typer.Option(metavar="INTERVALS.csv", help="Also write an interval for each entry that was filled in.")
    ] = None,
    level: Annotated[str, typer.Option(metavar="SHARE", help="The share of entries that the intervals should contain.")] = "0.9",
    max_components: Annotated[int, typer.Option(metavar="N", help="The most components to try.")] = 64,
    array: Annotated[str | None, typer.Option(metavar="NAME", help="The array to take for the table, where there are several.")] = None,
    transpose: Annotated[bool, typer.Option("--transpose", help="Samples are the columns of the file, not the rows.")] = False,
    decimal: Annotated[str, typer.Option(metavar="MARK", help="In text, the mark before the decimals: . or ,")] = ".",
    index_col: Annotated[
        str | None, typer.Option(metavar="NAME", help="The column with the names of the rows, by its name or its number from 1.")
    ] = None,
    na: Annotated[list[str] | None, typer.Option(metavar="VALUE", help="A value that means a missing entry; may be given again.")] = None,
    header: Annotated[bool, typer.Option("--header", help="The first line holds names, even if they are numbers.")] = False,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Fill in the holes of a table, with intervals calibrated on held-out entries."""
    from . import complete_command

    complete_command.complete_file(
        file=file,
        out=out,
        intervals=intervals,
        level=level,
        max_components=max_components,
        array=array,
        transpose=transpose,
        layout={"decimal": decimal, "index_col": index_col, "na": na or (), "header": header},
        seed=seed,
        as_json=json,
    )


@app.command()
def denoise(
    file: PictureFile,
    out: PictureOut = None,
    sigma: Annotated[str, typer.Option(metavar="S", help="Standard deviation of the noise, where white is 255; auto finds it.")] = "auto",
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Remove the noise from a grey or colour picture, using a model learned from the picture itself."""
    from . import picture_commands

    picture_commands.denoise(file=file, out=out, sigma=sigma, seed=seed, as_json=json)


@app.command()
def inpaint(
    file: PictureFile,
    mask: Annotated[str, typer.Option(metavar="MASK.png", help="A picture of the same size, not black where pixels are missing.")],
    out: PictureOut = None,
    sigma: Annotated[str, typer.Option(metavar="S", help="Standard deviation of the noise in the other pixels, where white is 255.")] = "0",
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Fill in the missing pixels of a grey or colour picture, using a model learned from the other pixels."""
    from . import picture_commands

    picture_commands.inpaint(file=file, out=out, mask=mask, sigma=sigma, seed=seed, as_json=json)


@app.command()
def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            metavar="fig1|fig2|fig3|fig4|dictionary|phase|all",
            help="Which figure of the paper, or a map of what the algorithm reaches.",
        ),
    ],
    out: OutDir = "out",
    fast: Annotated[
        bool, typer.Option("--fast", help="fig4, dictionary and phase at small sizes only, with fewer points and seeds.")
    ] = False,
    sizes: Annotated[str | None, typer.Option(metavar="N1,N2,..", help="Sizes N of fig4; the size of dictionary and phase.")] = None,
    seeds: Annotated[int | None, typer.Option(metavar="K", help="Instances per point of fig4, dictionary and phase.")] = None,
    json: AsJson = False,
) -> None:
    """Draw the figures of the paper again, with their data."""
    from . import reproduce as figures

    figures.reproduce(what, out=out, as_json=json, fast=fast, sizes=sizes, seeds=seeds)


@app.command()
def demo(out: OutDir = "out") -> None:
    """A phase diagram, one point of it explained, and one instance recovered."""
    from . import reproduce as figures

    figures.demo(out=out)


@app.command()
def explore(
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on; with any other than 127.0.0.1, other computers can reach the page.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="0 for any that is free.")] = 8050,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Don't open the page in a browser.")] = False,
) -> None:
    """A page on this computer: sliders, phase diagram, potential, and AMP run live (extra: spinodal[explorer])."""
    from ..explorer.server import explore as serve
    from .startup import look_for_garbage_as_usual

    look_for_garbage_as_usual()
    serve(host, port, open_browser=not no_browser)
