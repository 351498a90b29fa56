"""The table of docs/results.md: the paper's tasks with and without ELMo.

| file | content |
|---|---|
| `run.py` | the command line: `run`, `fit`, `study`, `report`, `restore` |
| `plan.py` | tasks, columns, settings to try, the paper's figures |
| `corpora.py` | the tasks' data, split into train, dev and test |
| `records.py` | which fits there are, and the record of each |
| `fits.py`, `studies.py` | one fit, one ablation |
| `jobs.py` | several of them at a time, as processes |
| `encoders.py`, `minilm.py` | the digests of biLMs and MiniLM; MiniLM's layers |
| `counts.py` | counts per example, paired bootstrap |
| `summary.py`, `report.py` | means and intervals, docs/results.md |
| `archive.py`, `commands.py` | all records in one file, commands without absolute paths |
"""
