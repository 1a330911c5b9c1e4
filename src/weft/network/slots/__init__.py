"""Sharing "scheduled": rates that a pace sets, slot by slot."""
