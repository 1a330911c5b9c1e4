"""Profiles of models: measured ones, and files in the formats of weft, ASTRA-sim and PipeDream."""
