"""What a model's layers know, measured by simple means on labelled text."""
