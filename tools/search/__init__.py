"""The use case `search`: a tree of candidates grown from a seed, forecast, measured and remembered under a budget."""
