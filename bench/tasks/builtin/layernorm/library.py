# /// kforecast 1
# task = "layernorm"
# [[launch]]
# entry = "layernorm"
# args = ["x", "gamma", "beta"]
# ///
from torch.nn import functional


def layernorm(x, gamma, beta):
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps=1e-5)
