"""Read and write with nothing but pyarrow: any Arrow Flight client can do this, in any language.

python examples/stock_flight_client.py                 # starts a server of its own
python examples/stock_flight_client.py grpc://localhost:8815
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack

import pyarrow as pa
import pyarrow.flight as flight


def main() -> None:
    with ExitStack() as stack:
        if len(sys.argv) > 1:
            uri = sys.argv[1]
        else:
            import barrage_server as bs

            uri = stack.enter_context(bs.Server(port=0)).uri
        client = stack.enter_context(flight.FlightClient(uri))
        rows = pa.table({"id": [1, 2, 3], "text": ["one", "two", "three"]})

        # A DoPut appends, and creates the table if it does not exist. Its rows become visible when the call ends.
        path = flight.FlightDescriptor.for_path("scope", "stock")
        writer, _ = client.do_put(path, rows.schema)
        with writer:
            writer.write_table(rows)

        # Options are in the schema's metadata.
        options = json.dumps({"key": ["id"]}).encode()
        keyed = flight.FlightDescriptor.for_path("scope", "stock_keyed")
        for table in (rows, pa.table({"id": [2], "text": ["TWO"]})):
            writer, _ = client.do_put(keyed, table.schema.with_metadata({"barrage:put": options}))
            with writer:
                writer.write_table(table)

        # Read the whole list first: pyarrow does not read two calls at a time.
        for info in list(client.list_flights()):
            name = info.descriptor.path[-1].decode()
            found = client.do_get(flight.Ticket(f"s/{name}".encode())).read_all()
            print(name, info.total_records, found.slice(0, 5).to_pydict())

        for name in ("stock", "stock_keyed"):
            body = json.dumps({"table": name}).encode()
            list(client.do_action(flight.Action("barrage.drop", body)))


if __name__ == "__main__":
    main()
