"""The statements of the changes: constant texts, whatever the number of rows."""
