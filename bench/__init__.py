"""The bench room: the truth. Languages, tasks, devices, broker, correctness, timing. Imports only `store`."""
