"""Decides whether recorded calls fit one order of events: the search of Wing and Gong, with a memory.

A call takes effect at one moment between its begin and its end; its acts do so one after the other. A call
without a response may take effect at any later moment, or never.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

ANYTHING: Any = object()
MOST_STATES = 50_000  # of a search; one that finds an order takes about as many as there are calls
MOST_TO_SHRINK = 1_000  # of each search while a history is shrunk: with fewer reads more orders are possible


@dataclass(frozen=True)
class Act:
    """`apply` changes the model and returns what the caller must have received."""

    apply: Callable[[Any], Any]
    received: Any = ANYTHING


@dataclass(frozen=True)
class Call:
    text: str
    begin: float
    end: float  # inf: it got no response
    acts: tuple[Act, ...]


Line = Sequence[Call]  # the calls of one caller: each begins after the end of the one before


Acts = Sequence[Sequence[tuple[Call, Act]]]  # of each line
Fits = Callable[[Any], bool]


@dataclass
class State:
    """How far each line is, and the model after these acts."""

    done: tuple[int, ...]
    model: bytes
    text: str  # the same for equal models
    before: "State | None" = None
    last: str = ""

    def texts(self) -> list[str]:
        texts, state = [], self
        while state.before is not None:
            texts.append(state.last)
            state = state.before
        return texts[::-1]

    def following(self, acts: Acts) -> list[tuple[int, Call, Act]]:
        """The next act of each line that is not at its end."""
        return [
            (at, *of[done])
            for at, (of, done) in enumerate(zip(acts, self.done, strict=True))
            if done < len(of)
        ]


@dataclass
class Verdict:
    order: list[str] | None  # the acts in an order that explains the history; None: there is none
    longest: list[str] = field(default_factory=list)  # the longest order that explains a part of it
    stuck: list[str] = field(default_factory=list)  # the acts that could follow it, and why they do not
    is_over: bool = True  # False: there may be an order that was not looked at


def fits_always(model: Any) -> bool:
    return True


def check(lines: Sequence[Line], model: Any, fits: Fits = fits_always, most: int = MOST_STATES) -> Verdict:
    """A call without a response has a line of its own. No order leads through a model that does not fit."""
    acts = [[(call, act) for call in line for act in call.acts] for line in lines]
    start = State((0,) * len(lines), pickle.dumps(model), repr(model))
    longest, states = start, [start]
    seen: set[tuple[tuple[int, ...], str]] = set()
    while states and len(seen) < most:
        state = states.pop()
        if all(call.end == inf for _, call, _ in state.following(acts)):
            return Verdict(state.texts())
        if sum(state.done) > sum(longest.done):
            longest = state
        new = [each for each in next_states(state, acts, fits) if (each.done, each.text) not in seen]
        seen.update((each.done, each.text) for each in new)
        states += new
    return Verdict(None, longest.texts(), list(why_stuck(longest, acts)), not states)


def next_states(state: State, acts: Acts, fits: Fits) -> list[State]:
    """The most probable one, with the act that ended first, is the last."""
    following = state.following(acts)
    first_end = min(call.end for _, call, _ in following)
    states = []
    for number, call, act in sorted(following, key=lambda each: -each[1].end):
        if call.begin > first_end:
            continue
        changed = pickle.loads(state.model)
        found = act.apply(changed)
        if act.received not in (ANYTHING, found) or not fits(changed):
            continue
        text = repr(changed)
        done = (*state.done[:number], state.done[number] + 1, *state.done[number + 1 :])
        new = State(done, pickle.dumps(changed), text, state, f"{call.text} -> {found}")
        if not may_change(act):
            return [new]  # it fits now, so whatever explains the rest can follow it
        if text != state.text or call.end < inf:  # a lost call that changes nothing is as if it never were
            states.append(new)
    return states


def why_stuck(state: State, acts: Acts) -> Iterator[str]:
    for number, call, act in state.following(acts):
        found = act.apply(pickle.loads(state.model))
        yield f"caller {number}: {call.text} received {act.received}, not {found}"


def shrink(lines: Sequence[Line], model: Any, fits: Fits = fits_always) -> list[list[Call]]:
    """A small part of a history that fits no order, either.

    Calls that begin late go first: without what happened after a moment, a history that fits has still an
    order. The same is true of a call that only reads, or was rejected, so these are left out one at a time.
    """

    def fails(lines: Sequence[Line]) -> bool:
        verdict = check(lines, model, fits, MOST_TO_SHRINK)
        return verdict.order is None and verdict.is_over

    ends = sorted({call.end for line in lines for call in line if call.end < inf})
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(cut(lines, ends[middle])) else (middle + 1, high)
    lines = cut(lines, ends[low])
    for number, at in reversed(
        [(number, at) for number, line in enumerate(lines) for at in range(len(line))]
    ):
        fewer = [list(line) for line in lines]
        if not any(map(may_change, fewer[number].pop(at).acts)) and fails(fewer):
            lines = fewer
    return [list(line) for line in lines if line]


def cut(lines: Sequence[Line], until: float) -> list[list[Call]]:
    """The history as it was known at this moment: calls that had not ended had no response."""
    return [
        [
            call if call.end <= until else replace(call, end=inf, acts=tuple(map(unanswered, call.acts)))
            for call in line
            if call.begin <= until
        ]
        for line in lines
    ]


def unanswered(act: Act) -> Act:
    return replace(act, received=ANYTHING)


def may_change(act: Act) -> bool:
    """False for a read and for a rejected change."""
    return act.received is ANYTHING or act.received == "DONE"


def printed(lines: Sequence[Line]) -> Iterator[str]:
    """The calls by their begin, for a reader."""
    calls = [(number, call) for number, line in enumerate(lines) for call in line]
    for number, call in sorted(calls, key=lambda each: each[1].begin):
        end = "no response" if call.end == inf else f"{call.end:.4f}"
        received = [act.received for act in call.acts if act.received is not ANYTHING]
        yield f"{call.begin:.4f} to {end}, caller {number}: {call.text} {received}"
