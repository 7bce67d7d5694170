"""Migration from the old service: record its responses, import them, and compare both services."""
