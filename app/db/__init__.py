"""What is stored: tables, entities, reads, writes and the drivers that run them. No rules live here."""
