"""Measurements of this server beside its peers.

All do the same work, on one machine, in one run.

Parts of it run in the environments of the peers, so this module and those below :mod:`benchmarks.servers` and
:mod:`benchmarks.clients` import nothing that the peers do not have.
"""
