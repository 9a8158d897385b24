"""Algorithm 1 (`selection`), Algorithm 2 (`joint`), and what both rest on: `projected` and `factored` descent."""
