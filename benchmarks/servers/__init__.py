"""The servers that are measured, each in a process of its own, all with the same functions."""
