"""Estimates against the truth: scores, calibration of uncertainties, bounds, records of runs, and experiments made of many."""
