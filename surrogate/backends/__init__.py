"""Forecasters behind one protocol: whoever answers a `Query` with an `Answer`."""
