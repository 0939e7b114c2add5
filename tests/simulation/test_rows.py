"""Hundreds of seeds of schedules whose rows decide: each due time has one fate, and what the row has is sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from celery_parrot.dispatch.ledgers import RowLedger
from celery_parrot.model.plan import Plan, Verdict
from tests.simulation import rows
from tests.simulation.rows import FAULTS, Row, Rows, Table, simulate_rows

SEEDS, CHUNK = 300, 50


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_the_row_decides(first: int) -> None:
    """Whatever dies, forgets, is out of reach or is edited."""
    for seed in range(first, first + CHUNK):
        found = simulate_rows(seed)
        assert found.violations == [], f"seed {seed}"


def test_the_seeds_are_worth_something() -> None:
    """Every kind of trouble strikes, and beside it there is work."""
    results = [simulate_rows(seed) for seed in range(1000, 1030)]
    struck = sum((found.struck for found in results), Counter[str]())
    assert set(struck) >= {*FAULTS, "edit", "outage", "memory lost", "stopped"}
    assert sum(found.fires for found in results) > 1000
    assert sum(found.messages for found in results) > sum(found.fires for found in results) * 0.9
    assert simulate_rows(1001) == results[1], "a seed is the same everywhere"


def _never_move(row: Row, plan: Plan) -> Verdict:
    """Neither mark nor version is compared."""
    return Verdict.HELD if row.held else Verdict.COMMITTED


def _whatever_version(row: Row, plan: Plan) -> Verdict:
    return _judge(row, replace(plan, expected_version=row.version))


def _only_compare(self: Table, move: Any) -> Any:
    """The token in the history is not looked at."""
    before = len(self.history[move.plan.schedule_id])
    verdict, mark = _move(self, move)
    moved = len(self.history[move.plan.schedule_id]) > before or not (move.fires or move.plan.not_fired)
    return (verdict if moved else Verdict.MOVED), mark


def _believe(self: RowLedger, fires: Any) -> Any:
    """An entry in the outbox is as good as a commit."""
    return {fire.key: True for fire in fires}


def _say_no(self: Rows, fire: Any) -> bool:
    """Who did not see the row move drops the fire."""
    return False


_judge, _move = Table.judge, Table.move

BUGS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "no compare": (Table, "judge", staticmethod(_never_move)),
    "no version": (Table, "judge", staticmethod(_whatever_version)),
    "unproven sent": (RowLedger, "prove", _believe),
    "proof not looked for": (Rows, "_prove", _say_no),
}


@pytest.mark.parametrize("rule", BUGS)
def test_a_rule_taken_out_is_found(rule: str) -> None:
    """With a rule taken out, some of two hundred seeds are wrong."""
    where, name, bad = BUGS[rule]
    with mock.patch.object(where, name, bad):
        assert any(rows.simulate_rows(seed).violations for seed in range(200)), rule
