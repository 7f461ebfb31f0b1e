"""From observations to an analysis; numpy and scipy are imported inside, never by the command line's help."""
