"""Several runs in place of one: what they agree on is counted, nothing told counts as found, and only what is confirmed is trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import spinodal as sp
from spinodal.inference.execution import runs as made_runs
from spinodal.inference.search import population
from spinodal.inference.search.population import Asking, Request, confirmed, course, together
from spinodal.inference.search.vote import SAME, VOTED, Elected, Member, counted, elect, has, parts_of_one, start_from, unit_atoms, verdict
from spinodal.inference.solution import Status

M, N = 20, 6
ALL = list(range(N))
LARGE = sp.Pair(None, "large")


@cache
def true_atoms() -> np.ndarray:
    """Unit columns at right angles."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(M, M)))[0][:, :N]


def nearly(atoms: np.ndarray, seed: int, error: float = 1e-3) -> np.ndarray:
    """The atoms with relative errors of this variance, in another order and with other signs."""
    rng = np.random.default_rng(seed)
    changed = atoms + np.sqrt(error / len(atoms)) * rng.normal(size=atoms.shape)
    return (changed * rng.choice([-1.0, 1.0], atoms.shape[1]))[:, rng.permutation(atoms.shape[1])]


@dataclass
class Ended:
    """As much of a Solution as the comparison of runs looks at."""

    iterations: int
    model: Any = None
    mean: Any = LARGE
    variance: Any = LARGE


def run(
    seed: int,
    *,
    wrong: Any = (),
    told: Any = None,
    sound: bool = True,
    free_entropy: float = 0.0,
    iterations: int = 100,
    error: float = 1e-3,
    spare: bool = False,
) -> Member:
    """A run that found the true atoms but these, each of which is wrong in its own way.

    Runs see the same data: right atoms differ by less than their variances.
    """
    atoms = true_atoms().copy()
    atoms[:, list(wrong)] = np.random.default_rng([seed, 7]).normal(size=(M, len(list(wrong))))
    found = unit_atoms(nearly(unit_atoms(atoms), seed, error))
    member = Member(found, np.full(N, 10 * error), np.zeros(N, bool), told, sound, free_entropy, Ended(iterations))
    return member._replace(spare=np.abs(true_atoms().T @ found).max(axis=0) < SAME) if spare else member


def truth_of(member: Member) -> np.ndarray:
    """For each atom of a run the true one that it is."""
    return np.argmax(np.abs(true_atoms().T @ member.atoms), axis=0)


# The count


def test_clusters_do_not_depend_on_the_order_and_signs_of_atoms_or_the_order_of_runs() -> None:
    runs = [nearly(true_atoms(), seed) for seed in range(3)]
    ballot = counted(runs)
    np.testing.assert_array_equal(ballot.votes[:N], 3)
    cosine = np.abs(true_atoms().T @ ballot.atoms[:, :N])
    assert sorted(np.argmax(cosine, axis=0)) == ALL
    assert cosine.max(axis=1).min() > 0.999
    rng = np.random.default_rng(1)
    shuffled = [(each * rng.choice([-1.0, 1.0], N))[:, rng.permutation(N)] for each in runs[::-1]]
    again = counted(shuffled)
    np.testing.assert_allclose(again.votes, ballot.votes)
    np.testing.assert_allclose(again.tightness, ballot.tightness, rtol=1e-12)
    np.testing.assert_allclose(np.abs(np.sum(again.atoms * ballot.atoms, axis=0)), 1.0, rtol=1e-12)


def test_the_mean_of_a_cluster_is_nearer_to_the_truth_than_its_members() -> None:
    """The errors of k runs are independent: that of their mean is the k-th part."""
    runs, k = [nearly(true_atoms(), seed, error=0.05) for seed in range(4)], 4

    def error(atoms: np.ndarray) -> float:
        return float(np.mean(1 - np.max(np.abs(true_atoms().T @ unit_atoms(atoms)), axis=1) ** 2))

    alone = np.mean([error(each) for each in runs])
    # A mean square over (M - 1) N degrees of freedom has the relative error sqrt(2/((M - 1) N)); here 4 of them.
    assert error(counted(runs).atoms[:, :N]) == pytest.approx(alone / k, rel=4 * np.sqrt(2 / ((M - 1) * N)))


def test_atoms_of_a_single_run_have_one_vote_each() -> None:
    ballot = counted([3.0 * true_atoms()])
    np.testing.assert_array_equal(ballot.votes, np.ones(N))
    np.testing.assert_allclose(ballot.tightness, 1.0)
    np.testing.assert_allclose(np.abs(ballot.atoms.T @ true_atoms()).max(axis=0), 1.0)


def test_what_most_runs_have_comes_first_and_nothing_twice() -> None:
    runs = [run(seed, wrong=[seed]).atoms for seed in range(3)]  # atoms 0, 1 and 2 are wrong in one run each
    runs[0][:, 0] = 0.0  # a lost atom votes for nothing
    ballot = counted(runs)
    assert list(ballot.votes[:3]) == [3, 3, 3]
    assert list(ballot.votes) == sorted(ballot.votes, reverse=True)
    assert np.all(np.isfinite(ballot.atoms))
    apart = np.abs(ballot.atoms.T @ ballot.atoms) - np.eye(len(ballot.votes))
    assert apart.max() < SAME


def test_a_start_from_the_vote_is_near_it_and_as_large_as_the_prior() -> None:
    F, variance = start_from(true_atoms()[:, :4], N, VOTED, np.random.default_rng(2))
    assert F.shape == variance.shape == (M, N)
    near = np.sum(unit_atoms(F)[:, :4] * true_atoms()[:, :4], axis=0)
    assert np.mean(near) == pytest.approx(np.sqrt(VOTED.power), abs=3 / np.sqrt(4 * M))
    # A mean of M N squares of entries of unit variance.
    assert np.mean(F**2) == pytest.approx(1.0, abs=4 * np.sqrt(2 / (M * N)))


# The election


def test_atoms_that_other_runs_found_by_themselves_are_confirmed_and_others_are_not() -> None:
    members = [run(0, wrong=[2], free_entropy=1.0), run(1, wrong=[4]), run(2)]
    elected = elect(members)
    assert elected.best is members[0]
    assert elected.runs == 3
    assert elected.best.atoms.shape[1] - elected.agreement.doubtful.size == N - 1
    (doubtful,) = elected.agreement.doubtful
    right = np.abs(true_atoms().T @ members[0].atoms).max(axis=0)
    assert right[doubtful] < SAME
    share = elected.agreement.reproducibility
    assert share[doubtful] == 0
    assert sorted(share) == [0, 0.5, 1, 1, 1, 1]


def test_an_atom_found_only_by_runs_that_were_told_of_it_is_doubtful() -> None:
    best, deaf = run(0, free_entropy=1.0), run(1, wrong=[3])
    told = [run(seed, told=best.atoms) for seed in (2, 3, 4)]
    agreement = elect([best, deaf, *told]).agreement
    (doubtful,) = agreement.doubtful
    assert truth_of(best)[doubtful] == 3
    assert (agreement.chances[doubtful], agreement.times[doubtful]) == (1, 0)  # the three that were told do not count
    # Those that were told of all others and find it again do, if there are two of them.
    rest = best.atoms[:, np.arange(N) != doubtful]
    asked = [run(seed, told=rest) for seed in (5, 6)]
    assert elect([best, deaf, *told, asked[0]]).agreement.doubtful.tolist() == [doubtful]
    assert not elect([best, deaf, *told, *asked]).agreement.doubtful.size
    missed = [run(seed, told=rest, wrong=[3]) for seed in (7, 8, 9)]
    assert elect([best, deaf, *told, *asked, *missed]).agreement.doubtful.tolist() == [doubtful]


def test_without_another_run_that_says_anything_every_atom_is_doubtful() -> None:
    for members in ([run(0)], [run(0, free_entropy=1.0), run(1, told=true_atoms())]):
        agreement = elect(members).agreement
        assert agreement.doubtful.tolist() == ALL
        assert np.isnan(agreement.reproducibility).all()


def test_unsound_runs_count_for_an_atom_but_never_against_one() -> None:
    best = run(0, free_entropy=1.0)
    sound, unsound = ([best, run(1), run(2, wrong=[0, 1, 5], sound=each)] for each in (True, False))
    missed = np.isin(truth_of(best), [0, 1, 5])
    np.testing.assert_array_equal(elect(sound).agreement.chances, 2)
    np.testing.assert_array_equal(elect(unsound).agreement.chances, np.where(missed, 1, 2))
    np.testing.assert_array_equal(elect(sound).agreement.times, elect(unsound).agreement.times)
    np.testing.assert_array_equal(elect(unsound).agreement.reproducibility, 1)


def test_a_sound_run_goes_before_one_of_higher_free_entropy() -> None:
    members = [run(0, sound=False, free_entropy=5.0), run(1), run(2, free_entropy=-np.inf)]
    assert elect(members).best is members[1]


def test_the_same_atom_must_agree_within_its_error() -> None:
    """A cosine of 0.95 is the same atom in noise, and two different ones where both are known to 0.1%."""
    close = true_atoms().copy()
    close[:, 0] = np.sqrt(0.9) * close[:, 0] + np.sqrt(0.1) * np.linalg.qr(np.random.default_rng(0).normal(size=(M, M)))[0][:, N]
    for variance, doubtful in ((0.2, []), (1e-3, [0])):
        one, other = (Member(atoms, np.full(N, variance), np.zeros(N, bool), None, True, 0.0, Ended(1)) for atoms in (true_atoms(), close))
        assert elect([one, other]).agreement.doubtful.tolist() == doubtful


def test_an_atom_that_is_known_far_worse_than_the_others_must_be_found_by_two_other_runs() -> None:
    """Within large errors much agrees: of forty atoms at 5 dB two runs shared one that was wrong in both."""
    variance = np.full(N, 0.05)
    variance[3] = 0.3
    runs = [Member(true_atoms(), variance, np.zeros(N, bool), None, True, 0.0, Ended(1)) for _ in range(3)]
    assert elect(runs[:2]).agreement.doubtful.tolist() == [3]
    assert elect(runs).agreement.doubtful.tolist() == []
    for as_usual in (np.full(N, 0.3), 1e-3 * variance):  # all are known badly, which the verdict says; or all well
        assert elect([each._replace(variance=as_usual) for each in runs[:2]]).agreement.doubtful.tolist() == []


@pytest.mark.parametrize(("finding", "doubtful"), [(4, []), (3, [2])])
def test_an_atom_that_is_known_far_worse_than_the_others_must_be_found_by_most_other_runs(finding: int, doubtful: list[int]) -> None:
    """Half of the runs, which is enough for any other, can share a wrong one."""
    variance = np.full(N, 0.03)
    variance[2] = 0.2
    best = Member(true_atoms(), variance, np.zeros(N, bool), None, True, 0.0, Ended(1))
    others = [best._replace(free_entropy=-1.0) for _ in range(finding)] + [run(k, wrong=[2], free_entropy=-1.0) for k in range(5 - finding)]
    assert elect([best, *others]).agreement.doubtful.tolist() == doubtful
    sure = best._replace(variance=np.full(N, 0.03))
    assert not elect([sure, *others]).agreement.doubtful.size


@pytest.mark.parametrize(
    ("found", "behind", "wrong", "doubtful"), [(2, 0.1, 1, []), (1, 0.1, 1, [0]), (2, 1e-6, 1, [0]), (2, 0.1, 3, [0, 1, 2])]
)
def test_one_of_many_atoms_may_be_missed_by_most_runs_that_are_less_likely_for_it(
    found: int, behind: float, wrong: int, doubtful: list[int]
) -> None:
    """Not if only one run found it, if those without it are as likely, or if it is one of several."""
    best = Member(np.eye(100), np.full(100, 0.05), np.zeros(100, bool), None, True, 0.0, Ended(1))
    without = np.eye(100)
    without[:, :wrong] = unit_atoms(np.random.default_rng(0).normal(size=(100, wrong)))
    runs = [best] + [best._replace(free_entropy=-1e-6)] * found + [best._replace(atoms=without, free_entropy=-behind)] * 9
    assert elect(runs, best).agreement.doubtful.tolist() == doubtful


def test_two_parts_of_one_atom_are_nearer_than_random_atoms_are() -> None:
    for seed, (rows, number) in enumerate([(20, 40), (64, 256), (100, 30), (3, 50), (1, 4), (10, 1)]):
        atoms, badly = unit_atoms(np.random.default_rng(seed).normal(size=(rows, number))), np.full(number, 0.1)
        assert not parts_of_one(atoms, badly).any(), (rows, number)
        assert not parts_of_one(np.abs(atoms), badly).any(), (rows, number)  # what all have in common makes no parts
    atoms, badly = unit_atoms(np.random.default_rng(0).normal(size=(64, 256))), np.full(256, 0.1)
    atoms[:, 7] = unit_atoms((0.75 * atoms[:, 3] + 0.66 * atoms[:, 7])[:, None])[:, 0]
    assert np.flatnonzero(parts_of_one(atoms, badly)).tolist() == [3, 7]
    assert not parts_of_one(atoms, badly / 100).any()  # atoms that are known well are told from each other


def test_chance_makes_parts_of_one_no_more_often_than_stated() -> None:
    """Of one in twenty sets of random atoms, at most: the bound is above the probability."""
    rng = np.random.default_rng(1)
    often = sum(parts_of_one(unit_atoms(rng.normal(size=(20, 40))), np.ones(40)).any() for _ in range(2000))
    assert 0 < often <= 100


@pytest.mark.parametrize(("by_themselves", "doubtful"), [(3, [0, 1]), (4, [])])
def test_parts_of_one_atom_are_confirmed_by_most_runs_told_nothing(by_themselves: int, doubtful: list[int]) -> None:
    """Runs that are told of the other atoms split the same one again, and so may two from starts of their own; unsound ones without them
    count against them."""
    many = np.eye(100)
    many[:, 1] = unit_atoms((0.8 * many[:, 0] + 0.6 * many[:, 1])[:, None])[:, 0]
    best = Member(many, np.full(100, 0.05), np.zeros(100, bool), None, True, 0.0, Ended(1))
    told = best._replace(told=many[:, 2:], free_entropy=-1e-6)
    without = np.eye(100)
    without[:, :2] = unit_atoms(np.random.default_rng(0).normal(size=(100, 2)))
    others = [best._replace(free_entropy=-1e-6)] * by_themselves
    others += [best._replace(atoms=without, sound=False, free_entropy=-1.0)] * (5 - by_themselves)
    elected = elect([best, told, told, told, *others], best)
    assert elected.agreement.doubtful.tolist() == doubtful
    reason = verdict(Status.CONVERGED, "", elected, {})[1]
    assert ("perhaps part of the same one: 1, 2" in reason) == bool(doubtful)


def test_one_atom_of_another_run_confirms_one_atom() -> None:
    """Two estimates of one atom, in place of another that is missing, were both found by every run that has the atom once."""
    atoms = true_atoms().copy()
    atoms[:, 4] = 0.9 * atoms[:, 3] + np.sqrt(1 - 0.9**2) * atoms[:, 4]
    best = Member(atoms, np.full(N, 0.2), np.zeros(N, bool), None, True, 0.0, Ended(1))
    twice = true_atoms().copy()
    twice[:, 4] = np.linalg.qr(np.random.default_rng(0).normal(size=(M, M)))[0][:, N]  # the missing one is missing there too
    other = best._replace(atoms=twice, free_entropy=-1.0)
    assert has(other, best).tolist() == [k != 4 for k in ALL]
    agreed = elect([best, other]).agreement
    assert (agreed.times[3], agreed.times[4]) == (1, 0)
    assert agreed.doubtful.tolist() == [3, 4]  # either may be a part of one
    assert has(best, best).all()


def test_the_verdict_says_which_atoms_and_trusts_only_what_runs_confirmed() -> None:
    agreed = elect([run(0, free_entropy=1.0), run(1)])
    status, reason = verdict(Status.CONVERGED, "", agreed, {})
    assert (status, status.trusted) == (Status.CONVERGED, True)
    assert "2 runs agree" in reason
    divided = elect([run(0, free_entropy=1.0, wrong=[1]), run(1), run(2)])
    status, reason = verdict(Status.CONVERGED, "", divided, {})
    assert (status, status.trusted) == (Status.UNCONFIRMED, False)
    assert f"1 atom was not found again often enough: {divided.agreement.doubtful[0] + 1} (by 0 of 2 runs)" in reason
    for bad in (Status.DEGENERATE, Status.MAX_ITERATIONS, Status.DIVERGED):  # no vote makes up for these
        assert verdict(bad, "why", agreed, {}) == (bad, "why")
    apart = verdict(Status.CONVERGED, "", agreed, {"noise_variance": (0.1, 0.3), "density": (0.1, 0.11), "slab_mean": (-0.1, 0.2)})
    assert apart == (Status.UNCONFIRMED, "the data do not determine the noise variance (0.1 to 0.3): runs that look sound disagree")
    alone = verdict(Status.CONVERGED, "", elect([run(0)]), {})
    assert alone[0] is Status.UNCONFIRMED
    assert "no other run to confirm it" in alone[1]


# The course of the runs


Answer = Callable[[int, Request], Member]


def test_atoms_that_are_known_too_roughly_are_not_confirmed_by_agreement() -> None:
    for error, expected in ((1e-3, Status.CONVERGED), (0.012, Status.UNCONFIRMED)):
        status, reason = verdict(Status.CONVERGED, "", elect([run(0, error=error), run(1, error=error)]), {})
        assert status is expected
        assert ("12% of the atoms' power" in reason) == (expected is Status.UNCONFIRMED)


def go_through(
    answer: Answer, runs: int = 6, votes: bool = True, max_iterations: int = 10_000
) -> tuple[Elected, list[list[Request]], list[Member]]:
    """The end of a course whose runs are answered so, by their number; what was asked, and all members."""
    return answered(course(runs, votes, max_iterations, np.random.default_rng(0)), answer)


def answered(going: Asking[Elected], answer: Answer) -> tuple[Elected, list[list[Request]], list[Member]]:
    asked, members = [next(going)], []
    while True:
        new = [answer(len(members) + k, request) for k, request in enumerate(asked[-1])]
        members += new
        try:
            asked.append(going.send(new))
        except StopIteration as end:
            return end.value, asked, members


def test_two_runs_that_agree_are_enough() -> None:
    elected, asked, _ = go_through(lambda number, request: run(number))
    assert elected.runs == 2
    assert [len(each) for each in asked] == [2]
    assert all(request.told is None for request in asked[0])


def test_runs_that_disagree_are_joined_by_more_and_then_told_of_the_vote() -> None:
    def answer(number: int, request: Request) -> Member:
        if request.told is None:
            return run(number, wrong=[number % 3, 3 + number % 3])
        return run(number, told=request.told, free_entropy=1.0)

    elected, asked, _ = go_through(answer)
    own = [request for each in asked for request in each if request.told is None]
    assert len(own) == 6
    assert asked[3][0].told is not None
    assert np.abs(true_atoms().T @ asked[3][0].told).max(axis=1).min() > 0.99  # most runs have each atom
    assert not elected.agreement.doubtful.size  # each was found by four of six
    assert verdict(Status.CONVERGED, "", elected, {})[0] is Status.CONVERGED


def test_where_no_run_finds_an_atom_there_is_no_vote_to_start_from() -> None:
    elected, asked, _ = go_through(lambda number, request: run(number, sound=False)._replace(atoms=np.zeros((M, N))))
    assert all(request.told is None for each in asked for request in each)
    assert elected.agreement.doubtful.size == N


def test_doubtful_atoms_are_left_out_of_a_start_to_be_found_again() -> None:
    """Of the runs from starts of their own the best alone has atom 0. Those that are told of all say nothing about it."""

    def answer(number: int, request: Request) -> Member:
        missed = [] if number == 0 or request.told is not None else [0]
        return run(number, wrong=missed, told=request.told, free_entropy=float(number == 0))

    elected, asked, members = go_through(answer)
    assert elected.best is members[0]
    tests = [request for each in asked for request in each if request.told is not None and request.told.shape[1] < N]
    assert tests
    assert all(np.abs(true_atoms()[:, 0] @ request.told).max() < SAME for request in tests)  # type: ignore[operator]
    assert not elected.agreement.doubtful.size
    atom = truth_of(elected.best) == 0
    assert elected.agreement.tested[atom] == elected.agreement.passed[atom] == len(tests)


@pytest.mark.parametrize("found", [True, False])
def test_what_changed_after_the_election_is_compared_again_and_what_nobody_had_is_tested(found: bool) -> None:
    """The best run had atom 0 wrong, as a vote has it, and ended with the right one; of the others one has it, or none."""
    before = elect([run(0, wrong=[0], free_entropy=1.0), run(1, wrong=[] if found else [0]), run(2, wrong=[0])])
    end = run(3)
    going = confirmed(before, end, 10_000, np.random.default_rng(0))
    if found:
        (elected,) = together([going], lambda asked: pytest.fail("there is nothing to test"))
        assert elected.runs == before.runs
    else:
        elected, asked, _ = answered(going, lambda number, request: run(10 + number, told=request.told, free_entropy=9.0))
        assert all(request.told is not None and np.abs(true_atoms()[:, 0] @ request.told).max() < SAME for request in asked[0])
        assert elected.runs == before.runs + len(asked[0])
    assert elected.best is end  # though others have a higher free entropy
    assert not elected.agreement.doubtful.size
    assert verdict(Status.CONVERGED, "", elected, {})[0] is Status.CONVERGED


@pytest.mark.parametrize(("wrong", "first"), [([0, 1], population._SHORT_WAYS[0]), (ALL, population._LONG_WAYS[0])], ids=["some", "all"])
def test_rounds_are_short_where_runs_share_atoms_and_change_when_they_bring_nothing(wrong: list[int], first: Any) -> None:
    """Runs that are never sound and never better: each way is tried once, in order, and then the search ends."""
    _, asked, _ = go_through(lambda number, request: run(number, wrong=wrong, told=request.told, sound=False))
    ways = [(each[0].cooling, each[0].limit) for each in asked if each[0].told is not None]
    everything = population._LONG_WAYS + population._SHORT_WAYS
    assert ways[0] == first
    assert ways == list(everything[everything.index(first) :])


def test_a_way_that_brings_something_goes_on() -> None:
    _, asked, _ = go_through(lambda number, request: run(number, wrong=[0, 1], told=request.told, sound=False, free_entropy=float(number)))
    assert {each[0].cooling for each in asked if each[0].told is not None} == {population._SHORT_WAYS[0][0]}


def test_runs_that_all_end_alike_are_followed_by_runs_told_of_parts_and_the_vote_is_theirs() -> None:
    """Wrong atoms that all runs share are lost by runs that are not told of them."""
    shared = np.random.default_rng(3).normal(size=(M, 2))

    def answer(number: int, request: Request) -> Member:
        wrong = ALL if request.told is None else ()
        member = run(number, wrong=wrong, told=request.told, sound=False, free_entropy=0.01 * number)
        atoms = true_atoms().copy()
        atoms[:, :2] = shared
        return member._replace(atoms=unit_atoms(atoms)) if np.shape(request.told) == (M, N) else member

    told = [[request.told for request in each] for each in go_through(answer)[1] if each[0].told is not None]
    assert [part.shape[1] for part in told[1]] == [round(population._PART * N)] * population._VOTED
    assert len({part.tobytes() for part in told[1]}) > 1
    true = [np.abs(true_atoms().T @ np.concatenate(parts, axis=1)).max(axis=0) > SAME for parts in told[1:3]]
    assert not true[0].all()
    assert true[1].all()


def test_more_runs_do_not_look_for_what_spare_atoms_could_do() -> None:
    elected, asked, _ = go_through(lambda number, request: run(number, wrong=[0], spare=True))
    assert [len(each) for each in asked] == [2, 3]
    assert [request.told.shape[1] for request in asked[1]] == [N - 1] * 3
    status, reason = verdict(Status.CONVERGED, "", elected, {})
    assert status is Status.UNCONFIRMED
    assert "5 atoms may be enough" in reason


def test_one_run_or_runs_that_do_not_vote_are_made_at_once_and_no_others() -> None:
    for runs, votes in ((1, True), (1, False), (4, False)):
        elected, asked, _ = go_through(lambda number, request: run(number, wrong=ALL), runs, votes)
        assert [len(each) for each in asked] == [runs]
        assert elected.runs == runs


@pytest.mark.parametrize("max_iterations", [1, 40, 1000, 1700, 10_000])
@pytest.mark.parametrize("sound", [True, False])
def test_the_budget_of_iterations_is_never_exceeded(max_iterations: int, sound: bool) -> None:
    """Runs that never agree, and use all that they may: each better than those before, so that none gives up for want of progress."""

    def answer(number: int, request: Request) -> Member:
        assert 0 < request.limit <= max_iterations
        return run(number, wrong=ALL, told=request.told, sound=sound, free_entropy=float(number), iterations=request.limit)

    elected, asked, members = go_through(answer, max_iterations=max_iterations)
    assert sum(member.found.iterations for member in members) <= population._BUDGET * max_iterations
    assert elected.runs == len(members) >= 4
    assert all(asked)  # nobody is asked for nothing
    assert verdict(Status.CONVERGED, "", elected, {})[0] is Status.UNCONFIRMED


def test_courses_side_by_side_are_as_each_alone() -> None:
    """Instances that agree at once, late and never: what one needs changes nothing for another."""

    def answer(instance: int, number: int, request: Request) -> Member:
        wrong = [[], [number % 3] if request.told is None else [], ALL][instance]
        return run(100 * instance + number, wrong=wrong, told=request.told, free_entropy=float(number))

    def all_of(instances: list[int]) -> tuple[list[Elected], list[tuple[int, int]]]:
        made, calls = dict.fromkeys(instances, 0), []

        def explore(asked: list[tuple[int, Request]]) -> list[Member]:
            calls.append((len({k for k, _ in asked}), len(asked)))
            members = []
            for k, request in asked:
                members.append(answer(instances[k], made[instances[k]], request))
                made[instances[k]] += 1
            return members

        return together([course(6, True, 10_000, np.random.default_rng(k)) for k in instances], explore), calls

    beside, calls = all_of([0, 1, 2])
    assert calls[0] == (3, 6)  # the first two runs of all are made together
    for k in range(3):
        (alone,), _ = all_of([k])
        assert alone.runs == beside[k].runs
        np.testing.assert_array_equal(alone.best.atoms, beside[k].best.atoms)
        for one, other in zip(alone.agreement, beside[k].agreement, strict=True):
            np.testing.assert_array_equal(one, other)
    assert beside[0].runs == 2
    assert beside[1].runs < beside[2].runs


# From data to status: 10 dB


NOISY = sp.Problem.sparse(alpha=1.0, pi=15.0, rho=0.15, noise_variance=0.015)  # Z has the variance rho: ten times the noise
SIZE = 20


@cache
def noisy() -> tuple[sp.Instance, sp.Solution]:
    instance = sp.sample(NOISY, SIZE, seed=0)
    return instance, sp.solve(instance.observed, NOISY, n_atoms=SIZE)


def test_in_noise_every_atom_is_right_and_confirmed() -> None:
    instance, solution = noisy()
    assert solution.status.trusted, solution.reason
    assert solution.runs >= 2
    assert np.all(solution.reproducibility >= 0.5)
    found = sp.score(solution.mean, instance.truth)
    assert found.angle.max() < 0.2  # 1 - cos^2; a wrong atom has about 1 - 2 ln(N)/M = 0.7
    assert np.mean(found.angle) < 1.5 * sp.amp_mse(NOISY).mse.F


def test_a_single_run_is_unconfirmed_however_good_and_so_is_what_goes_on_from_it() -> None:
    instance, _ = noisy()
    alone = sp.solve(instance.observed, NOISY, n_atoms=SIZE, runs=1)
    assert alone.status == "unconfirmed"
    assert not alone.status.trusted
    assert (alone.runs, alone.reproducibility) == (1, None)
    again = sp.solve(instance.observed, NOISY, n_atoms=SIZE, start=alone)
    assert again.status == "unconfirmed"
    assert "went on from" in again.reason


@pytest.mark.claims
def test_going_on_from_a_confirmed_solution_is_trusted() -> None:
    instance, solution = noisy()
    again = sp.solve(instance.observed, NOISY, n_atoms=SIZE, start=solution)
    assert again.status == "converged"
    np.testing.assert_allclose(sp.score(again.mean, solution.mean).angle, 0, atol=1e-2)


@pytest.mark.claims
@pytest.mark.parametrize("seed", range(3))
def test_pure_noise_is_never_trusted(seed: int) -> None:
    Y = np.sqrt(0.165) * np.random.default_rng(seed).normal(size=(SIZE, 15 * SIZE))  # of the same shape and power
    solution = sp.solve(Y, NOISY, n_atoms=SIZE, max_iterations=2000)
    assert not solution.status.trusted, solution.reason


@pytest.mark.claims
def test_instances_side_by_side_are_solved_as_each_alone() -> None:
    """With a seed of its own an instance has the answer that it has alone, wherever it stands: also where runs start from the vote. Noise,
    so that all of them are needed."""
    n = 6
    noise, other = np.sqrt(0.165) * np.random.default_rng(0).normal(size=(2, n, 10 * n))
    options: dict[str, Any] = {"n_atoms": n, "max_iterations": 4000}
    alone = sp.solve(noise, NOISY, seed=5, **options)
    both = sp.solve(np.stack([other, noise]), NOISY, seed=[3, 5], **options)
    assert alone.runs > 6  # starts of their own, and others
    assert both[1].runs == alone.runs
    assert (both[1].status, both[1].reason) == (alone.status, alone.reason)
    np.testing.assert_allclose(both[1].mean.F, alone.mean.F, atol=1e-9)
    np.testing.assert_array_equal(both[1].reproducibility, alone.reproducibility)


@pytest.mark.claims
def test_votes_can_be_left_out() -> None:
    instance, _ = noisy()
    one = sp.solve(instance.observed, NOISY, n_atoms=SIZE, search=sp.Search(vote=False))
    assert one.runs == 1
    assert one.status in ("unconfirmed", "degenerate", "max_iterations")


@pytest.mark.claims
@pytest.mark.parametrize("anneal", [0, None])
def test_without_annealing_no_run_is_heated(anneal: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those that start from a vote either."""
    hot, made = [], made_runs.solve_group

    def noted(plan: Any, observed: Any, model: Any, draws: Any, wishes: Any, placement: Any, saved: Any, start: Any) -> Any:
        if start is not None and start.X is None:  # it is told of atoms only
            hot.append(wishes.cooling.hot)
        return made(plan, observed, model, draws, wishes, placement, saved, start)

    monkeypatch.setattr(made_runs, "solve_group", noted)
    problem = sp.Problem.sparse(alpha=0.5, pi=6.0, rho=0.2, noise_variance=0.2)
    Y = sp.sample(problem, 12, seed=0).observed.Y
    sp.solve(Y, problem, n_atoms=12, max_iterations=100, search=sp.Search(anneal=anneal))
    assert (max(hot) > 0) == (anneal is None)
