"""The CUDA device: a launcher that only launches and times, an oracle that knows the answers, a session that directs
both.
"""
