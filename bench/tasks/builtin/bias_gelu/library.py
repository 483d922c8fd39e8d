# /// kforecast 1
# task = "bias_gelu"
# [[launch]]
# entry = "bias_gelu"
# args = ["x", "b"]
# ///
from torch.nn import functional


def bias_gelu(x, b):
    return functional.gelu(x + b, approximate="tanh")
