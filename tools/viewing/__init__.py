"""What people watch: pages over the store for `kforecast tui`, read-only, with no idea of how they are drawn."""
