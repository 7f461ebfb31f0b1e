"""Records: one SQLite file per experiment, its series beside it, and the exports."""
