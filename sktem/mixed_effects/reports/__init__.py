"""What is filed of fits: comparisons, intervals, searches and tables."""
