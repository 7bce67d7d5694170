"""What the service tells Prometheus of itself: what, where, and how several processes tell it as one."""
