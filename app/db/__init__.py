"""The database: tables, entities, reads, statements and drivers. It has no business rules."""
