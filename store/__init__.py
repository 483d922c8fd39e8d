"""The store room: the nouns, the one bin table, the SQLite store and its exchange formats. Imports nothing of ours."""
