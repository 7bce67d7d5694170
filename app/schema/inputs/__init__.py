"""Inputs and payloads of the mutations."""
