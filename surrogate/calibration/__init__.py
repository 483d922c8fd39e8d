"""Holding forecasters to their record: verified pairs, calibration, drift, the promise, the audit."""
