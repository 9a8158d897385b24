"""How the work over all pairs is cut up and who does it: tile plans, sources of tiles, executors."""
