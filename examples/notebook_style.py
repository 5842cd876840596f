# %% [markdown]
# The cells run one after the other in Jupyter or an editor that knows `# %%`, or all at once with
# `python examples/notebook_style.py`.

# %% A server with prices that tick; omit this and use your own address below.
"""A live table in a notebook."""

from __future__ import annotations

from ticking_quotes import serve_quotes

import barrage_server as bs

running = serve_quotes()
uri = running.__enter__()

# %% Connect once: reading a live table never waits for the network.
client = bs.connect(uri)
quotes = client.subscribe("quotes", interval_ms=50)
client.tables()

# %% The present content. Run this cell again to refresh it.
quotes.wait_until(lambda view: view.size > 20)
frame = quotes.to_pandas().sort_values("price", ascending=False)
print(frame.head())

# %% A version is an immutable snapshot.
version = quotes.version
prices = version.to_table()["price"]
print(f"{version.size} rows, of which {len(prices)} have a price")

# %% A callback for every change, in the background.
changes: list[int] = []
forget = quotes.on_update(lambda update: changes.append(update.modified_rows.size))
quotes.wait_until(lambda _: len(changes) >= 3)
forget()
print(f"rows modified by each of {len(changes)} updates: {changes[:3]}")

# %% At the end.
client.close()
running.__exit__(None, None, None)
