"""What pytreeopt costs beside Optax: `python -m parity.bench`."""
