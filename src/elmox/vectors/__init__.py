"""Vectors of whole files: HDF5, npy shards, Parquet."""
