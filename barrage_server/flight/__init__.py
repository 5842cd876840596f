"""What both ends of a Flight connection share: errors, staging, retries, sockets."""
