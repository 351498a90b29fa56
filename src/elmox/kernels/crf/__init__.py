"""The linear-chain CRF."""
