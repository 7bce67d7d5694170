"""Keeps the plans of reads by the shape of their selections.

Callers choose these shapes, so that the cache is bounded by the memory of its plans. It is their only owner:
prepared operations refer to plans weakly.
"""

import gc
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any
from weakref import ref

from app.db.reader.plans import PlanNode
from app.db.reader.selection import Selection
from app.db.sql import DatabaseKind, LongWork, Statement, Steps

MAX_WEIGHT = 4 * 2**20  # bytes, in each process; some hundred plans
MAX_PLANS_OF_SELECTION = 16  # weak references
NODE_WEIGHT, COLUMN_WEIGHT, STATEMENT_WEIGHT = 4000, 800, 1000  # bytes, besides the text of the statements

Key = tuple[Hashable, ...]


@dataclass(eq=False)
class Plan:
    """What a read needs, without any expression of SQLAlchemy."""

    root: PlanNode
    was_used: bool = field(default=False, init=False)  # since the cache last looked for plans to remove
    weight: int = field(default=0, init=False)

    def statements(self) -> list[Statement]:
        raise NotImplementedError


@dataclass
class PlanCache:
    """A removed plan is freed at once, except the classes of its rows. Every class refers to itself, so that
    only the garbage collector frees it, which looks at old objects too rarely."""

    max_weight: int = MAX_WEIGHT
    weight: int = 0
    removed_weight: int = 0  # since the last collection
    plans: OrderedDict[Key, Plan] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)
    building: Lock = field(default_factory=Lock)

    def get(self, key: Key) -> Plan | None:
        with self.lock:
            plan = self.plans.get(key)
            if plan is not None:
                plan.was_used = True
            return plan

    def build(self, key: Key, build: Callable[[], Plan]) -> Plan:
        """One plan at a time, because threads that build plans delay the event loop."""
        with self.building:
            plan = self.get(key)
            if plan is None:
                plan = build()
                plan.weight = weight_of(plan)
                self.add(key, plan)
            return plan

    def add(self, key: Key, plan: Plan) -> None:
        with self.lock:
            self.plans[key] = plan
            self.weight += plan.weight
            while self.weight > self.max_weight and len(self.plans) > 1:
                self.remove_one()
            is_collecting = self.removed_weight > self.max_weight
            if is_collecting:
                self.removed_weight = 0
        if is_collecting:
            gc.collect()

    def remove_one(self) -> None:
        """Removes the oldest plan that was not used since the last round."""
        key, plan = self.plans.popitem(last=False)
        if plan.was_used:
            plan.was_used = False
            self.plans[key] = plan
        else:
            self.weight -= plan.weight
            self.removed_weight += plan.weight


PLANS = PlanCache()


def known_plan(selection: Selection, key: Key) -> Any:
    """The plan under this key of a selection that was used before; None if it has to be looked up."""
    reference = selection.plans.get(key)
    plan: Plan | None = reference and reference()
    if plan is not None:
        plan.was_used = True
    return plan


def finding_plan(
    selection: Selection, key: Key, kind: DatabaseKind, build: Callable[..., Plan], *arguments: Any
) -> Steps[Any]:
    """The plan for this shape of selection, from the cache or newly built of the arguments and the kind.

    Building takes a millisecond for each linked page, and a request reads up to 50 root fields at once.
    """
    shape = (*key, kind, selection.shape)
    plan = PLANS.get(shape)
    if plan is None:
        (plan,) = yield LongWork(partial(PLANS.build, shape, partial(build, *arguments, kind)))
    if len(selection.plans) >= MAX_PLANS_OF_SELECTION:
        selection.plans.clear()
    selection.plans[key] = ref(plan)
    return plan


def weight_of(plan: Plan) -> int:
    nodes = sum(NODE_WEIGHT + COLUMN_WEIGHT * node.width for node in nodes_of(plan.root, set()))
    texts = [compiled.sql for each in plan.statements() for compiled in each.compiled.values()]
    return nodes + sum(STATEMENT_WEIGHT + len(text) for text in texts)


def nodes_of(node: PlanNode, seen: set[PlanNode]) -> Iterator[PlanNode]:
    """The nodes of a plan, each once."""
    if node not in seen:
        seen.add(node)
        yield node
        for child in node.children:
            yield from nodes_of(child.node, seen)
