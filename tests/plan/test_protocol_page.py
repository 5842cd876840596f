"""``docs/protocol.md`` lists every operation, every condition and every field of the JSON of plans."""

from __future__ import annotations

from tests.plan.protocol_tables import PAGE, with_tables


def test_the_page_has_the_tables_of_operations() -> None:
    page = PAGE.read_text()
    assert page == with_tables(page), "run: python -m tests.plan.protocol_tables"
