"""Pages beside each other in one browser: what is painted when.

They are observed from outside.
"""
