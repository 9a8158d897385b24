"""From pictures to feature groups: loading, alignment, regions, and their descriptors (section 4 of the paper)."""
