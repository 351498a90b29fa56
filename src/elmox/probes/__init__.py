"""What a model's layers know, measured by simple means on labeled text."""
