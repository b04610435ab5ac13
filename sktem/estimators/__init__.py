"""What all estimators share, and StochasticEM. Import them from :mod:`sktem`."""
