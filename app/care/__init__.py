"""The rules of the service: functions whose first argument is the context of the request."""
