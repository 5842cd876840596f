"""Clients of the peers, which run in the peers' environments."""
