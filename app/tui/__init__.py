"""`kforecast tui`: the window on everything that agents, people and CI do with kforecast."""
