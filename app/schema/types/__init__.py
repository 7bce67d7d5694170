"""The output types, ids, connections and scalars."""
