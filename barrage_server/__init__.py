"""Live tables over Arrow Flight: publish from Spark or Python, subscribe from anywhere."""
