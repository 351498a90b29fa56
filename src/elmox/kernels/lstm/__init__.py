"""The LSTM with projection and clipping."""
