"""Tests of the GraphQL page in a real browser, run by `make browser` only."""
