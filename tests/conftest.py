"""Shared by all tests."""

import gc
import os
from importlib.metadata import version

# Eight devices on one CPU, for the tests of sharding.
FLAGS = ["--xla_force_host_platform_device_count=8"]
if version("jaxlib").startswith("0.10."):
    # Compiles in half the time. `make parity` and `make test-full` have XLA as users have it.
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def pytest_collection_finish():
    """What all tests share is no garbage: the collector need not look at it again."""
    gc.collect()
    gc.freeze()
