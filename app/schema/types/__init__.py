"""What can be read: the types, and how ids, lists and moments are said."""
