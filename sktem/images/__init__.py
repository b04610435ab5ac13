"""Images as users pass them: shapes, channels, and images read by blocks."""
