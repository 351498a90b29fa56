"""Fast versions of what `model/`, `tasks/nn` and `training/` compute, one folder per operation.

| operation | plain | fast CPU | Triton | tested against |
|---|---|---|---|---|
| `lstm` | `plain` inference, `plain_rows` training, `plain_pointwise` | `cpu_packed`, `cpu_single` | `triton_layer`, `triton_rows`, `triton_step`, `triton_pointwise` | `model/lstm.py` |
| `char_cnn` | `model/char_cnn.py` | `cpu_table` | `triton_kernels` | `model/char_cnn.py` |
| `highway` | `model/highway.py` | `cpu_packed` | `triton_kernels` | `model/highway.py` |
| `linear` | `torch.nn.functional.linear` | `cpu_packed`, `cpu_half`, `cpu_int8` | none | plain torch |
| `cross_entropy` | `plain` | none | `triton_loss`, `triton_kernels` | `torch.nn.functional.cross_entropy` |
| `dropout` | `plain` | none | `triton_kernels` | `plain`, bit by bit |
| `row_update` | `plain` | none | `triton_kernels` | `torch.optim` |
| `crf` | `plain` | none | `triton_kernels` | all sequences one by one, pytorch-crf |
| `recurrence` | `plain`, `torch.nn.LSTM` | none | `triton_kernels` | the formulas step by step, `torch.nn.LSTM` |

Names in a folder: `plain*.py` runs everywhere, `cpu_*.py` is faster on a CPU, `triton_*.py` is
imported only where Triton and a GPU are present, and `dispatch.py` chooses between them. Callers
import `dispatch.py`. `availability.py` decides whether Triton can run; `paths.py` describes the
choice.
"""  # noqa: E501
