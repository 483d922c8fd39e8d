"""Scoring forecasts: rows of forecast beside truth, the metrics over them, their intervals, and the controls."""
