"""MIX -> TASK: the paper's tasks, each a reader, a head and a metric; one loop fits them all."""
