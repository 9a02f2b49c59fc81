# Row kernels: norms, activations, rope, embedding, sums. Vector sources are added with the flags of their set.
