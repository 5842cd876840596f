"""What both ends of a Flight connection share: errors on the wire, staging and commits, retries, sockets."""
