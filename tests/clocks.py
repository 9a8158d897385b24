"""Time for tests."""


class Clock:
    """Time that passes when it is made to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def after(self, seconds):
        self.now += seconds
        return self
