# /// kforecast 1
# task = "gemm_f32"
# [[launch]]
# entry = "gemm_f32"
# args = ["A", "B"]
# ///
import torch


def gemm_f32(A, B):
    return torch.mm(A, B)
