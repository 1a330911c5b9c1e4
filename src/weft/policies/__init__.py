"""Policies: answers to one question each (order, place, interleave, pace, route); planners answer two at once."""
