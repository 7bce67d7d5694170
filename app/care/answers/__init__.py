"""Answers: drafts, submissions, and what is said of them."""
