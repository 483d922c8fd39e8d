"""Recorded searches: how one is taken out of a store, and how it is played into another."""
