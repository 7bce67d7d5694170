"""The edge: what stands between the sockets and the application when `serve` runs it."""
