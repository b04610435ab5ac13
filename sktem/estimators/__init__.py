"""Common parts of all estimators, and StochasticEM. Import them from :mod:`sktem`."""
