"""Estimates against the truth: scores, calibration of uncertainties, bounds, and experiments made of many solves."""
