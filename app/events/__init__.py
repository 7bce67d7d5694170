"""The dispatcher: fires reminders that are due, and takes what happened to the webhook."""
