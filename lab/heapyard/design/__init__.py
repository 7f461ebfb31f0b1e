"""Designs: blocks, random orders, and how many blocks a wanted precision takes."""
