# /// kforecast 1
# task = "rmsnorm"
# [[launch]]
# entry = "rmsnorm"
# args = ["x", "w"]
# ///
from torch.nn import functional


def rmsnorm(x, w):
    return functional.rms_norm(x, w.shape, w, eps=1e-6)
