"""What a gallery refuses."""

ADVICE = "`samekind gallery check` says what is wrong with a gallery; restore it from a copy if it cannot be repaired."


class GalleryError(ValueError):
    """A gallery cannot be used as asked: foreign, damaged, busy, full, or of another model."""
