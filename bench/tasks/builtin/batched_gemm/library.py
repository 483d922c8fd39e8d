# /// kforecast 1
# task = "batched_gemm"
# [[launch]]
# entry = "batched_gemm"
# args = ["A", "B"]
# ///
import torch


def batched_gemm(A, B):
    return torch.bmm(A, B)
