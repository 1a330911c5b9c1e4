"""Pictures of runs, clusters and iterations, drawn with matplotlib."""
