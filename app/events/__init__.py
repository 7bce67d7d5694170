"""Events: due reminders, deliveries to the webhook, notifications of subscriptions, and retention."""
