"""The console: scripts of clients, which run as Python in this process. Nothing here is imported where it is off."""
