"""The Slurm world: the same core and stacks schedule the jobs of a real Slurm cluster."""
