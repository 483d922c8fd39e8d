"""The tools room: the use cases, each written once, for every face. Imports `bench`, `surrogate` and `store`."""
