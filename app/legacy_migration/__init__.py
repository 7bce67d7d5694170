"""Moving over from the old service: its answers recorded, taken over, and compared with those of this one."""
