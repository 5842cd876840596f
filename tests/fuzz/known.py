"""What is known to end a server and cannot be mended here: left out of the fuzz, so that it finds what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from barrage_server.errors import WireFormatError
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, header_type
from barrage_server.wire.raw import decode_flight_data


def ends_pyarrow(messages: Sequence[bytes]) -> bool:
    """Whether a message without an Arrow header follows a dictionary.

    After a dictionary, pyarrow's Flight server (26.0.1 and before) reads on for the batch within itself, and takes for
    granted that the next message has a header: SIGSEGV, before this project sees anything. See docs/limits.md. The
    other ports refuse such a stream.
    """
    headers = [_header(message) for message in messages]
    return any(_is_dictionary(first) and not second for first, second in pairwise(headers))


def _header(message: bytes) -> bytes:
    try:
        return decode_flight_data(message).data_header
    except WireFormatError:
        return b"damaged"


def _is_dictionary(header: bytes) -> bool:
    try:
        return bool(header) and header_type(header) == DICTIONARY_BATCH
    except WireFormatError:
        return False
