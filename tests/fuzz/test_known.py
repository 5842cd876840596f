"""What the fuzz leaves out is still there: when this fails, pyarrow is mended, and ``known.py`` and its limit go."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.fuzz.corpus import FLIGHT, Call, messages_of, path_descriptor, valid_calls
from tests.fuzz.known import ends_pyarrow
from tests.fuzz.protobuf import field
from tests.fuzz.run import ENDPOINTS, sender_of, server_for
from tests.waiting import until


def test_no_valid_call_is_left_out() -> None:
    assert not any(ends_pyarrow(call.messages) for call in valid_calls())


@pytest.mark.slow
@pytest.mark.parametrize(("endpoint", "ends"), [(name, name == "flight") for name in ENDPOINTS])
def test_a_message_without_a_header_behind_a_dictionary(endpoint: str, ends: bool, tmp_path: Path) -> None:
    schema, dictionary, _ = messages_of(pa.table({"d": pa.array(["a", "b"]).dictionary_encode()}))
    messages = (field(1, path_descriptor("t")) + schema, dictionary, field(3, b"{}"))
    assert ends_pyarrow(messages)
    with server_for(endpoint, tmp_path) as server:
        sender = sender_of(endpoint, server)
        sender.send(Call(FLIGHT + "DoPut", messages))
        sender.close()
        if ends:
            until(lambda: not server.is_alive, what="the server ends")
        else:
            server.settled()
