"""What crosses from training to use."""
