"""Own data: everything that is held of a client, in two forms."""
