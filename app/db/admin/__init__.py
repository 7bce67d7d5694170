"""What the operator does with a database: migrate it, fill it, keep its accounts, check its kept numbers."""
