"""The same scripts in a Deephaven server and in ours: the same changes are told, and the same of them fail."""

from __future__ import annotations

import pytest

from barrage_server import Server
from tests.server.deephaven.scripting import Scripting, place

from .deephaven import DeephavenServer

pytestmark = pytest.mark.interop

IMPORT = "from deephaven import agg, empty_table, merge, new_table, time_table, updateby\n"
SCRIPTS = [
    "s_t = empty_table(3).update('n = ii')\n_s_u = s_t\ns_n = 5",
    "s_t = s_t",
    "s_t, s_v = s_t.where('n > 0'), merge([s_t, s_t])",
    "s_w = s_t\n1 / 0",
    "s_t = None",
    "del s_v, s_w",
    "s_x =",
    "raise SystemExit",
    "def s_f():\n    raise ValueError('a')\n\ns_f()",
    "import deephaven.nothing",
    "s_a = new_table({'x': [1, 2]}) if False else empty_table(4).update(['g = ii % 2', 'v = ii'])",
    "s_b = s_a.agg_by([agg.sum_('v'), agg.count_('c')], by='g')\ns_c = s_a.update_by(updateby.cum_sum('v'), by=['g'])",
    "s_d = s_b.natural_join(s_a.first_by('g'), on='g', joins='w = v').sort_descending('g').meta_table",
    "assert s_a.size == 4 and not s_a.is_refreshing and time_table('PT1H').is_refreshing and not s_a.is_blink",
    "s_b, s_c = s_c, s_b",
    "del s_nothing",
    "_s_u = s_a = s_b = s_c = s_d = s_n = s_f = None",
]


def test_scripts_change_the_same_variables_in_both(deephaven: DeephavenServer) -> None:
    with Server(deephaven_port=0, console=True) as server:
        theirs, ours = Scripting(f"127.0.0.1:{deephaven.port}"), Scripting(place(server))
        assert theirs.types() == ours.types() == ["python"]
        for client in (theirs, ours):
            assert client.run(IMPORT).error == ""
        for script in SCRIPTS:
            expected, found = theirs.run(script), ours.run(script)
            assert bool(found.error) is bool(expected.error), (script, found.error, expected.error)
            assert (found.created, found.updated, found.removed) == (
                expected.created,
                expected.updated,
                expected.removed,
            ), script
            assert found.kinds == expected.kinds
        assert list(server.tables()) == []
        for client in (theirs, ours):
            client.close()
