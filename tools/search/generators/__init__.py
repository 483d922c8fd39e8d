"""Generators: where candidates come from."""
