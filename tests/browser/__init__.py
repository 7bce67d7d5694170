"""The pages in a real browser, by `make browser` only."""
