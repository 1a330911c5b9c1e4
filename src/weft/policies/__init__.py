"""Policies: answers to one question each (order, place, interleave, pace), and planners that answer two at once."""
