"""Shared by all tests."""

import os

# Eight devices on one CPU, for the tests of sharding; one thread each keeps two test processes out of each other's way.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
