"""The server of a live run: `weft serve`, what it remembers, and what it tells."""
