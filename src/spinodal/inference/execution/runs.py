"""The runs of all instances: made in groups, compared by the search, the best of each settled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ...model.model import Model, stacked
from ...model.priors import Moments
from ...model.sampling import Observed
from ...pair import Pair
from ..search import bias
from ..search.learning import OF_NOISE, learns_from_residuals, with_parameters
from ..search.noise import Held, predicted, reconciled
from ..search.population import Request, confirmed, course, together
from ..search.supports import signals_searched
from ..search.vote import Elected, Member, Trust, changed_atoms, judged, spare_atoms, start_from
from ..solution import Solution, Status, Trace, going_on, joined
from ..solvers.base import COLD, Estimate
from ..suspicions import is_noise
from ..task import Data
from .at_once import at_once
from .batch import Plan, random_draws
from .checkpoint import EARLY, ELECTABLE, FINAL, TRIAL, Checkpoint, Ended
from .group import Told, Wishes, estimate_of, solution_of, solve_group, widths
from .machine import OneDevice, bytes_needed, memory, one_thread_each, side_by_side_suits
from .programs import leaves_cores

# Entries held out to learn the noise from: so many, but not less or more than these shares of all, and none at all of too few. 4000 tell
# a variance to 2%.
_HELD, _LEAST_HELD, _MOST_HELD, _FEWEST_HELD = 4000, 0.02, 0.1, 100
# Runs made together take at most this share of the memory, and are at most so many.
_ROOM, _MOST_TOGETHER = 0.5, 256
# Where more than this share of the signals were found one by one, runs misjudge parameters.
_FEW = 0.01
# The seed of entries held out is 1; those of data drawn again, and of a search for the nonzeros of single signals, are others.
_REDRAWN, _SIGNALS = 2, 3


def held_share(mask: np.ndarray) -> float:
    """Which share of the observed entries is held out."""
    return float(np.clip(_HELD / max(1, np.sum(mask)), _LEAST_HELD, _MOST_HELD))


class Job(NamedTuple):
    """A run of one instance: its number, what it starts from (None: a start of its own), the model that it starts with, whether it keeps
    the noise variance of that, which set of entries it is denied, if it searches (None: none), and its standing (`checkpoint.py`)."""

    instance: int
    number: int
    start: Estimate | None
    model: Model | None
    keeps_noise: bool = False
    fold: int | None = 0
    standing: int = FINAL

    @property
    def searches(self) -> bool:
        """Whether it does not go on from another run."""
        return self.start is None or self.start.X is None


class Made(NamedTuple):
    """A run as a solution, whether it looks sound by itself, which of its atoms are spare, and how it predicts entries held out (None:
    nobody asked)."""

    found: Solution
    sound: bool
    spare: np.ndarray
    held: Held | None


class Runs:
    """Makes runs of the instances of a solve. All arrays have a leading axis over instances; the models too, or there is one for all."""

    def __init__(
        self,
        plan: Plan,
        observed: Observed,
        models: Sequence[Model],
        seeds: Sequence[int],
        wishes: Wishes,
        placement: OneDevice,
        saved: Checkpoint | None,
    ) -> None:
        self.plan, self.wishes, self.placement, self.saved, self.seeds = plan, wishes, placement, saved, seeds
        self.size, self.dtype = len(observed.Y), np.dtype(plan.dtype)
        self.observed = jax.tree.map(lambda value: value if value.dtype == bool else value.astype(self.dtype, copy=False), observed)
        self.models = [models[0]] * self.size if len(models) == 1 else list(models)
        self.from_scratch = observed.F_prime is None
        self.holds = self.chooses = False
        self.widest = 0
        M, P = observed.Y.shape[1:]
        room = _ROOM * memory() * placement.memories / bytes_needed(M, plan.N, P, self.dtype.itemsize)
        self.most = max(1, int(min(room, _MOST_TOGETHER)))
        self.iterations = 0  # of all groups so far

    def _seed(self, k: int) -> tuple[int, int]:
        """The seed of an instance: with one of its own it is what it is alone, wherever it stands."""
        return (self.seeds[0], k) if len(self.seeds) == 1 else (self.seeds[k], 0)

    def _data(self, jobs: list[Job], holds: bool) -> Any:
        """The data of some runs: with `holds`, those that search are denied some entries, which tell them how large the noise is."""
        places = [job.instance for job in jobs]
        as_given = places == list(range(self.size))  # nothing to copy
        observed = self.observed if as_given else jax.tree.map(lambda value: value[places], self.observed)
        if not holds:
            return observed
        Y, F_prime, mask = observed
        mask = np.ones(Y.shape, bool) if mask is None else mask
        held = np.zeros(Y.shape, bool)
        for k, job in enumerate(jobs):
            if job.fold is not None and job.searches:
                held[k] = self._held(job.instance, job.fold)
        keeps = np.array([[job.keeps_noise] * Y.shape[-1] for job in jobs])
        return Data(Y, F_prime, mask & ~held, held, keeps)

    def _held(self, k: int, fold: int) -> np.ndarray:
        """A set of entries of an instance that are held out: the same in all runs, which are compared. No two sets share one."""
        Y, mask = self.observed.Y[k], None if self.observed.mask is None else self.observed.mask[k]
        mask = np.ones(Y.shape, bool) if mask is None else mask
        drawn, share = np.random.default_rng((*self._seed(k), 1)).random(Y.shape), held_share(mask)
        held = mask & (drawn >= fold * share) & (drawn < (fold + 1) * share)
        # Of a signal or a row that would have no entry left, all are kept.
        return held & (mask & ~held).any(axis=0) & (mask & ~held).any(axis=1, keepdims=True)

    def _prediction(self, k: int, found: Solution, fold: int) -> Held:
        """How well a run predicts what it was denied."""
        return predicted(*found.mean, found.variance, float(found.model.noise_variance), self.observed.Y[k], self._held(k, fold))

    def alone(self, start: Solution | None) -> Solution:
        """One run of every instance, from its own start or a given one."""
        jobs = [Job(k, 0, None if start is None else estimate_of(start, k, self.dtype), None) for k in range(self.size)]
        groups = list(self._groups(jobs, self.wishes))
        together = len(groups) == 1 and len(groups[0].sound) == self.size  # nothing to take apart and copy
        found = groups[0].found if together else joined([each.found for each in _separate(groups, self.size)])
        if start is not None and self.from_scratch:
            ends = [going_on(found.status[k], found.reason[k], Status(start.status[k])) for k in range(self.size)]
            found.status[:], found.reason[:] = zip(*ends, strict=True)
        return found

    def compared(self, runs: int, votes: bool, learn: tuple[str, ...]) -> Solution:
        """The best of several runs of every instance, with what the others say of it."""
        enough = self.observed.Y[0].size * _MOST_HELD >= _FEWEST_HELD
        by_residuals = learns_from_residuals(self.models[0].channel)
        self.holds = votes and by_residuals and any(name in learn for name in OF_NOISE) and enough
        self.chooses = self.holds and "noise_variance" in learn and self.models[0].noise_variance is not None
        random = [np.random.default_rng(self._seed(k)) for k in range(self.size)]
        made = [0] * self.size

        def explore(asked: list[tuple[int, Request]]) -> list[Member]:
            answers: dict[int, Member] = {}
            kinds = [(request.told is None, request.limit, request.cooling) for _, request in asked]
            for kind in dict.fromkeys(kinds):  # those of a kind are made together
                places = [i for i, each in enumerate(kinds) if each == kind]
                jobs = []
                for i in places:
                    k, request = asked[i]
                    start = None if request.told is None else self._told(k, request.told, request.trust, random[k])
                    model, noise = request.model, request.noise_variance
                    if noise is not None:
                        model = with_parameters(model or self.models[k], {"noise_variance": noise})
                    standing = TRIAL if not request.electable else EARLY if noise is None else ELECTABLE
                    jobs.append(Job(k, made[k], start, model, noise is not None, request.fold, standing))
                    made[k] += 1
                cooling = COLD if self.wishes.search.anneal == 0 else kind[2]
                wishes = self.wishes._replace(max_iterations=kind[1], explores=votes, cooling=cooling)
                for i, run in zip(places, self.make(jobs, wishes), strict=True):
                    answers[i] = Member.of(run.found, run.sound, run.spare, asked[i][1].told, run.held)
            return [answers[i] for i in range(len(asked))]

        courses = [course(runs, votes, self.wishes.max_iterations, each, self.chooses) for each in random]
        elected = self._with_all_entries(together(courses, explore))
        best = [each.best.found for each in elected]
        if votes:
            keeps = [each.noise is not None for each in elected]
            settled = [(end.found, end.sound) for end in self._settled(list(enumerate(best)), keeps, strong=True)]
            # What looked sound is repaired where more entries or iterations show a fault.
            faulty = [k for k, (_, sound) in enumerate(settled) if elected[k].best.sound and not sound]
            best = [_with_its_way(end, sound, found) for (end, sound), found in zip(settled, best, strict=True)]
            for k, end in zip(faulty, self._settled([(k, settled[k][0]) for k in faulty], keeps, strong=False), strict=True):
                best[k] = _with_its_way(end.found, end.sound, best[k])
            looked = self._with_signals_searched(list(enumerate(best)), keeps, [self._seed(k) for k in range(self.size)])
            best, hard = [found for found, _ in looked], [share > _FEW for _, share in looked]
            # What others agreed on, and was mended since, is compared again; what was in doubt stays so.
            agreed = [k for k, each in enumerate(elected) if each.others and not each.agreement.doubtful.size]
            changed = [k for k in agreed if best[k].status is Status.CONVERGED and changed_atoms(best[k], elected[k]).size]
            ended = [Member.of(best[k], True, spare_atoms(best[k].mean), None) for k in changed]
            again = [confirmed(elected[k], end, self.wishes.max_iterations, random[k]) for k, end in zip(changed, ended, strict=True)]
            for k, each in zip(changed, together(again, lambda asked: explore([(changed[i], run) for i, run in asked])), strict=True):
                elected[k] = each
        ends = [judged(found, each, learn) for found, each in zip(best, elected, strict=True)]
        if votes and learn:
            ends = self._unbiased(ends, [each.noise is not None for each in elected], hard, learn)
        return joined([self._against_noise(k, found) for k, found in enumerate(ends)])

    def _with_all_entries(self, elected: list[Elected]) -> list[Elected]:
        """Where entries held out chose the noise, what all entries say of it counts too."""
        chosen = {k: each.noise for k, each in enumerate(elected) if each.noise is not None}
        learned = self._settled([(k, elected[k].best.found) for k in chosen], [False] * self.size, strong=True)
        for (k, noise), end in zip(chosen.items(), learned, strict=True):
            best, both = elected[k].best, reconciled(noise, float(end.found.model.noise_variance))
            found = replace(best.found, model=with_parameters(best.found.model, {"noise_variance": both.variance}))
            elected[k] = elected[k]._replace(best=best._replace(found=found), noise=both)
        return elected

    def _settled(self, found: list[tuple[int, Solution]], keeps: list[bool], strong: bool) -> list[Made]:
        """Runs that go on from the estimates of others, with all entries, to the end."""
        jobs = [Job(k, 0, estimate_of(each, None, self.dtype), each.model, keeps[k]) for k, each in found]
        return self.make(jobs, self.wishes._replace(strong=strong))

    def _with_signals_searched(
        self, found: list[tuple[int, Solution]], keeps: list[bool], seeds: list[tuple[int, int]]
    ) -> list[tuple[Solution, float]]:
        """Runs that settled go on from the nonzeros of single signals that they did not find (`search/supports.py`); each with the share of
        its signals that are others now."""
        ends = [(each, 0.0) for _, each in found]
        starts: dict[int, tuple[tuple[int, Solution], float]] = {}
        for i, (k, each) in enumerate(found):
            if each.status is Status.CONVERGED:
                if self.wishes.progress is not None:
                    self.wishes.progress("looking at single signals", self.iterations, np.nan)
                mask = None if self.observed.mask is None else self.observed.mask[k]
                now = estimate_of(each, None, self.dtype)
                with one_thread_each():
                    better = signals_searched(now.F, now.X, self.observed.Y[k], mask, each.model, (*seeds[k], _SIGNALS))
                if better is not None:
                    means, variances = (Pair(*pair) for pair in zip(now.F, better, strict=True))
                    share = float(np.mean(np.any(better.mean != now.X.mean, axis=0)))
                    starts[i] = (k, replace(each, mean=means, variance=variances)), share
        settled = self._settled([start for start, _ in starts.values()], keeps, strong=True)
        for (i, (_, share)), end in zip(starts.items(), settled, strict=True):
            if end.sound:
                ends[i] = _with_its_way(end.found, True, found[i][1]), share
        return ends

    def _unbiased(self, found: list[Solution], keeps: list[bool], hard: list[bool], learn: tuple[str, ...]) -> list[Solution]:
        """With parameters such as would have been learned if runs learned them right: see `search/bias.py`. Where signals were `hard`,
        those of the data drawn are looked at one by one, too."""
        names = [[name for name in learn if name in bias.CORRECTED and not (keep and name in OF_NOISE)] for keep in keeps]
        masks = [None if self.observed.mask is None else self.observed.mask[k] for k in range(self.size)]
        seeds = [(*self._seed(k), _REDRAWN) for k in range(self.size)]
        dtypes = [self.dtype] * self.size
        courses = [bias.course(*each) for each in zip(found, names, masks, seeds, dtypes, hard, strict=True)]

        def learned(asked: list[tuple[int, bias.Drawn]]) -> list[Model | None]:
            """What runs learn from data that were drawn, each like those of an instance; None where a run went wrong."""
            told = self.wishes.progress
            checking = None if told is None else lambda *_: told("checking parameters", self.iterations, np.nan)
            limit = min(self.wishes.max_iterations, bias.ITERATIONS)
            wishes = self.wishes._replace(strong=True, max_iterations=limit, progress=checking, watch=None)
            mask = None if self.observed.mask is None else self.observed.mask[[k for k, _ in asked]]
            observed, models = Observed(np.stack([each.Y for _, each in asked]), None, mask), [each.model for _, each in asked]
            again = Runs(self.plan, observed, models, self.seeds, wishes, self.placement, None)
            again.holds, again.widest = self.holds, self.widest  # so that the programs are those that there are
            keeping = [keeps[k] for k, _ in asked]
            jobs = [Job(i, 0, each.start, each.model, keeping[i]) for i, (_, each) in enumerate(asked)]
            ends = again.make(jobs, wishes)
            learned_by: list[Model | None] = [end.found.model if end.sound else None for end in ends]
            looked = [i for i, (k, _) in enumerate(asked) if hard[k] and learned_by[i] is not None]
            searched = again._with_signals_searched([(i, ends[i].found) for i in looked], keeping, [self._seed(k) for k, _ in asked])
            for i, (end, _) in zip(looked, searched, strict=True):
                learned_by[i] = end.model
            return learned_by

        return together(courses, learned)

    def _against_noise(self, k: int, found: Solution) -> Solution:
        """Atoms that all runs find can still be those of a few odd signals in noise."""
        mask = None if self.observed.mask is None else self.observed.mask[k]
        if found.status is not Status.CONVERGED or not is_noise(found, self.observed.Y[k], mask):
            return found
        return replace(found, status=Status.DEGENERATE, reason="nothing was learned: noise alone would explain Y as well")

    def _told(self, k: int, atoms: np.ndarray, trust: Trust, random: np.random.Generator) -> Estimate:
        """A start of an instance from these unit atoms, in the units of its prior of F."""
        prior = self.models[k].prior.F.moments()
        mean, variance = start_from(atoms, self.plan.N, trust, random)
        spread = float(prior.variance)
        return Estimate(Moments((float(prior.mean) + spread**0.5 * mean).astype(self.dtype), (spread * variance).astype(self.dtype)))

    def make(self, jobs: list[Job], wishes: Wishes) -> list[Made]:
        """Make these runs, which are all of a kind."""
        return _separate(self._groups(jobs, wishes), len(jobs))

    def _groups(self, jobs: list[Job], wishes: Wishes) -> Iterator[Ended]:
        """The runs in groups as they end, the last one filled up with copies."""
        if self._at_once(len(jobs), wishes):
            quietly = wishes._replace(progress=None)

            def alone(job: Job, told: Told | None) -> Ended:
                return self._group([job], quietly._replace(progress=told))

            for end in at_once(alone, jobs, wishes.progress, self.iterations, self.dtype, self.placement):
                self.iterations += int(np.max(end.found.iterations))
                yield end
            return
        done = 0
        for width in widths(len(jobs), self.widest, self.most, self.placement):
            here = jobs[done : done + width]
            done += width
            filled = here + [here[-1]] * (width - len(here))
            self.widest = max(self.widest, width)
            _, M, P = self.observed.Y.shape
            ended = None if self.saved is None else self.saved.past(self.models[0], (self.size, M, self.plan.N, P))
            if ended is None:
                ended = self._group(filled, self._counting(wishes))
                if self.saved is not None:
                    self.saved.finish(ended)
            self.iterations += int(np.max(ended.found.iterations))
            yield ended

    def _at_once(self, number: int, wishes: Wishes) -> bool:
        """Whether so many runs are best made side by side: nobody may watch each of their steps, or keep it in a file."""
        _, M, P = self.observed.Y.shape
        alone = self.saved is None and wishes.watch is None
        return alone and side_by_side_suits(number, self.placement) and leaves_cores(M, self.plan.N, P)

    def _group(self, jobs: list[Job], wishes: Wishes) -> Ended:
        observed = self._data(jobs, self.holds)
        model = stacked([job.model or self.models[job.instance] for job in jobs], self.dtype)
        starts = [job.start for job in jobs]
        start = None if starts[0] is None else jax.tree.map(lambda *values: np.stack(values), *starts)
        shape, numbers = (observed.Y.shape[1] + 1, self.plan.N), [(job.instance, job.number) for job in jobs]
        guesses = self.from_scratch and start is None  # else nothing is random
        draws = random_draws(self.seeds, self.size, numbers, shape, self.dtype) if guesses else None
        outcome = solve_group(
            self.plan,
            self.placement.columns(observed),
            self.placement.everywhere(model),
            self.placement.everywhere(draws),
            wishes,
            self.placement,
            self.saved,
            start,
        )
        sound = ~outcome.lost & (outcome.conclusion.settled if outcome.verdict is None else ~outcome.verdict.trouble)
        found = solution_of(outcome, self.from_scratch)
        # With an F' nobody asks which atoms are spare.
        spare = spare_atoms(found.mean) if self.from_scratch else np.zeros((len(jobs), self.plan.N), bool)
        held = np.full((len(jobs), len(Held._fields)), np.nan)
        for k, job in enumerate(jobs):
            if self.chooses and job.fold is not None and job.searches:
                held[k] = self._prediction(job.instance, found[k], job.fold)
        instances, standing = zip(*((job.instance, job.standing) for job in jobs), strict=True)
        return Ended(found, np.asarray(sound), spare, instances, np.array(standing), held)

    def _counting(self, wishes: Wishes) -> Wishes:
        """Those who are told or watch hear of the iterations of all runs, one after another."""
        before, told, watch = self.iterations, wishes.progress, wishes.watch
        if before == 0:
            return wishes
        return wishes._replace(
            progress=None if told is None else lambda stage, iteration, residual: told(stage, before + iteration, residual),
            watch=None if watch is None else lambda iteration, means: watch(before + iteration, means),
        )


def _separate(groups: Iterable[Ended], count: int) -> list[Made]:
    """The first so many runs of some groups, one by one."""
    each = [(ended, k) for ended in groups for k in range(len(ended.sound))][:count]
    told = (None if np.isnan(ended.held[k]).any() else Held.of(ended.held[k]) for ended, k in each)
    return [Made(ended.found[k], bool(ended.sound[k]), ended.spare[k], held) for (ended, k), held in zip(each, told, strict=True)]


def _with_its_way(end: Solution, sound: bool, way: Solution) -> Solution:
    """The end of the best run, with the iterations that led to it. If it went astray at the end, the estimates are those from before, and
    the status is the end's, which can't be trusted."""
    trace = Trace(*(np.concatenate(parts) for parts in zip(way.trace, end.trace, strict=True)))
    whole = replace(end, trace=trace, iterations=way.iterations + end.iterations)
    if sound or end.residual <= way.residual:
        return whole
    return replace(whole, **{name: getattr(way, name) for name in ("mean", "variance", "residual", "free_entropy", "model")})
