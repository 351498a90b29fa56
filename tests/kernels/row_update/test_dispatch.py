"""What a GPU runs for whole arrays, on a CPU."""

import torch

from elmox.kernels.row_update.dispatch import fused_adamw
from elmox.kernels.row_update.plain import AdamW, Gradient, Update, update_plainly


def test_torchs_fused_adamw_is_the_plain_one() -> None:
    """Gradients are divided by the divisor; the flag skips an update."""
    generator = torch.Generator().manual_seed(3)
    plain, fused = ([torch.zeros(4, 3) for _ in range(3)] for _ in range(2))

    def update(arrays: list[torch.Tensor], values: torch.Tensor) -> Update:
        weight, mean, square = arrays
        return Update(weight, {"mean": mean, "square": square}, Gradient(values))

    for time in range(1, 6):
        rule = AdamW(0.1, time, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
        values = torch.randn(4, 3, generator=generator)
        update_plainly(update(plain, values / 2), rule)
        for skip, gradient in ((1.0, values * torch.nan), (0.0, values)):
            divisor, flag = torch.tensor(2.0), torch.tensor(skip)
            fused_adamw([update(fused, gradient)], rule, divisor, flag)
        for ours, expected in zip(fused, plain, strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
