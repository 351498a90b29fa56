"""Reading and writing files, so that a file is never half written."""
