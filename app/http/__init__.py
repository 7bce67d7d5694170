"""What both contracts share of HTTP: routing, health, headers, CORS, idempotency keys."""
