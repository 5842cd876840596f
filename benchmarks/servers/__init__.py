"""The measured servers, each in a process of its own.

All have the same functions.
"""
