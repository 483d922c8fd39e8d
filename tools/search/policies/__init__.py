"""Policies: which candidate is worth improving next, and which is worth measuring."""
