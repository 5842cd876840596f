"""The console: scripts of clients, which run as Python in this process.

Nothing here is imported while the console is off.
"""
