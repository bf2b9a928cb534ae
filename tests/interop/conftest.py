"""Each library is given the same three optimizers, and must do with them what it does with Optax's."""

import pytest

from consumers import OPTIMIZERS


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def pair(request):
    """An optimizer of ours and Optax's, see `consumers.Pair`."""
    return request.param
