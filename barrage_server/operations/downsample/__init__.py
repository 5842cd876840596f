"""The points of plots: the first, least, greatest and last values of each part of a range."""
