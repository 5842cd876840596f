"""The page in the browser: its files, its websocket, and the port for both."""
