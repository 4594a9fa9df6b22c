"""suppress: the operator, the changes that it holds back, and the limits of its buffers (semantics, section 22)."""
