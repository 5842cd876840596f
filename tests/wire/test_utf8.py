"""Texts are UTF-8 or refused: what the check says of them is what Python's decoder says of each text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barrage_server.errors import WireFormatError
from barrage_server.wire.soundness import check_sound

# bytes at which UTF-8 makes a difference, and texts of every length of character
TELLING = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE]
TELLING += [0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
pieces = st.one_of(
    st.lists(st.sampled_from(TELLING), max_size=6).map(bytes),
    st.text(max_size=5).map(str.encode),
    st.text("aé€\U0001f600\u0800\ud7ff\ue000", max_size=5).map(str.encode),
)


def decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def bounds(texts: list[bytes]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *map(len, texts)], dtype=np.int32)


@given(st.lists(pieces, min_size=1, max_size=8))
@example([b"\xe0\x80\x80"])
@example([b"\xed\xa0\x80"])
@example([b"ab\xc3", b"\xa9"])
@example(["\U0001f600".encode()])
@example([b"\xc1\xbf"])
@example([b"ab\xe2\x82"])
@example([b"abc\xe2"])
def test_the_verdict_is_that_of_the_decoder(texts: list[bytes]) -> None:
    for data_type, dtype in ((pa.string(), np.int32), (pa.large_string(), np.int64)):
        parts = [None, pa.py_buffer(bounds(texts).astype(dtype)), pa.py_buffer(b"".join(texts))]
        array = pa.Array.from_buffers(data_type, len(texts), parts)
        forms: list[tuple[pa.Array, list[bytes]]] = [
            (array, texts),
            (array.slice(1), texts[1:]),
            (pa.ListArray.from_arrays([0, len(texts)], array), texts),
            (pa.StructArray.from_arrays([array], ["a"]), texts),
            (pa.DictionaryArray.from_arrays([0], array), texts),
            (pa.array(texts, pa.binary_view()).view(pa.string_view()), texts),
        ]
        for given_array, seen in forms:
            if all(map(decodes, seen)):
                check_sound(given_array)
            else:
                with pytest.raises(WireFormatError, match="UTF-8"):
                    check_sound(given_array)


@given(st.lists(st.tuples(pieces, st.booleans()), min_size=1, max_size=8))
def test_under_nulls_there_may_be_anything(texts: list[tuple[bytes, bool]]) -> None:
    values = [text for text, _ in texts]
    valid = np.array([is_valid for _, is_valid in texts])
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    parts = [validity, pa.py_buffer(bounds(values)), pa.py_buffer(b"".join(values))]
    array = pa.Array.from_buffers(pa.string(), len(values), parts)
    if all(decodes(text) for text, is_valid in texts if is_valid):
        check_sound(array)
    else:
        with pytest.raises(WireFormatError, match="UTF-8"):
            check_sound(array)


@pytest.mark.parametrize("first", TELLING)
def test_every_second_byte(first: int) -> None:
    """Followed by what completes a character, and by what does not."""
    for second in range(256):
        for rest in (b"", b"\x80", b"a"):
            text = bytes([first, second]) + rest
            parts = [None, pa.py_buffer(bounds([text])), pa.py_buffer(text)]
            array = pa.Array.from_buffers(pa.string(), 1, parts)
            if decodes(text):
                check_sound(array)
            else:
                with pytest.raises(WireFormatError, match="UTF-8"):
                    check_sound(array)
