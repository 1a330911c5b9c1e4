"""Agents on hosts: they find a job's sockets from outside, watch them, and carry out what a pace or a shift decided."""
