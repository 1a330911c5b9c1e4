"""The commands that check papers and fit constants; thin."""
