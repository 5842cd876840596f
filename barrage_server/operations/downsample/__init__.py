"""The points of plots: extremes and ends of each part of a range."""
