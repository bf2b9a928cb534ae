"""The proof that pytreeopt's numbers are Optax's: rows, oracles, and a report. Run with `python -m parity`."""
