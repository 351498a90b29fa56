"""LSTM layers of the tasks in one launch."""
