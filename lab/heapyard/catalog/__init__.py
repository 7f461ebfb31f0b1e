"""What exists on this machine to compare: allocators and real programs."""
