# /// kforecast 1
# task = "layernorm"
# [[launch]]
# entry = "layernorm"
# args = ["x", "gamma", "beta", "y", "C"]
# grid = ["R"]
# [tune]
# BLOCK = [4096, 1024]
# num_warps = [8, 4]
# ///
import triton
import triton.language as tl


@triton.jit
def layernorm(x, gamma, beta, y, C, BLOCK: tl.constexpr, EPS: tl.constexpr = 1e-5):
    row = tl.program_id(0).to(tl.int64)
    x += row * C
    y += row * C
    at = tl.arange(0, BLOCK)
    if C <= BLOCK:
        value = tl.load(x + at, mask=at < C, other=0.0)
        mean = tl.sum(value, 0) / C
        centred = tl.where(at < C, value - mean, 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / C + EPS)
        weight = tl.load(gamma + at, mask=at < C)
        tl.store(y + at, centred * scale * weight + tl.load(beta + at, mask=at < C), mask=at < C)
    else:
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, C, BLOCK):
            total += tl.load(x + start + at, mask=start + at < C, other=0.0)
        mean = tl.sum(total, 0) / C
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, C, BLOCK):
            inside = start + at < C
            centred = tl.where(inside, tl.load(x + start + at, mask=inside, other=0.0) - mean, 0.0)
            total += centred * centred
        scale = 1.0 / tl.sqrt(tl.sum(total, 0) / C + EPS)
        for start in range(0, C, BLOCK):
            inside = start + at < C
            value = (tl.load(x + start + at, mask=inside) - mean) * scale
            value = value * tl.load(gamma + start + at, mask=inside) + tl.load(beta + start + at, mask=inside)
            tl.store(y + start + at, value, mask=inside)
