"""The surrogate room: forecasts, their calibration and evaluation. Imports only `store`."""
