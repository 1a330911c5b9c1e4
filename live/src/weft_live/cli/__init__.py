"""The commands that run and watch real clusters; thin."""
