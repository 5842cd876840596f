"""Pages beside each other in one browser: what is painted when, as read off from outside."""
