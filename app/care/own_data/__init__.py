"""Own data: all stored data of a client, as JSON and as CSV."""
