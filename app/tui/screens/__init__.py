"""The screens of `kforecast tui`, one a file."""
