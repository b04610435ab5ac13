"""Reports on fits: comparisons, intervals, searches and tables."""
