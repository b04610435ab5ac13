"""Estimators: the scikit-learn faces. Import them from :mod:`sktem` itself."""
