"""Full and sampled softmax losses with their gradients."""
