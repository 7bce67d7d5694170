"""Assignments: the viewer's own, homework that is assigned, and what is done to it while it is pending."""
