"""The kernels of aggregates: what each does to rows. One file each, which its declaration's stem leads to."""
