"""A small, complete example that needs no data from outside: what `samekind demo` runs."""
