"""The nearest words of each descriptor, exactly."""
