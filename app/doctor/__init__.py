"""What is looked at when somebody asks whether the service is in order: nothing here changes anything."""
