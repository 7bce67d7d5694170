"""The statements of the changes. Their texts do not depend on the number of rows."""
