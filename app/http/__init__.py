"""HTTP code shared by both contracts: routing, health, headers, CORS and idempotency keys."""
