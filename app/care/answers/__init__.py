"""Answers: drafts, submissions and feedback."""
