import torch


def close(got, want):
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}"
    if not torch.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True):
        return f"differs by up to {(got - want).abs().max().item():.3g}"
    return ""
