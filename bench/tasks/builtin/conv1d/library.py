# /// kforecast 1
# task = "conv1d"
# [[launch]]
# entry = "conv1d"
# args = ["x", "w"]
# ///
from torch.nn import functional


def conv1d(x, w):
    channels, taps = w.shape
    return functional.conv1d(functional.pad(x, (taps - 1, 0)), w[:, None], groups=channels)
