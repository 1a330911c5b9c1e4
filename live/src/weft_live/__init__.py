"""weft-live: real worlds for weft's policies (local processes, Slurm, a testbed of real TCP), and what acts in them."""
