"""The best one-to-one alignment of two sets, by the Hungarian algorithm."""

import numpy as np
from numpy.typing import NDArray


def best_alignment(gains: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs of rows and columns, no row or column twice, whose gains sum up to the most.

    Rows are taken in one after the other. Each starts a search for the cheapest chain of
    re-alignments that ends in a free column (shortest augmenting paths with potentials, Jonker and
    Volgenant 1987): at most rows x rows x columns steps, mostly far fewer.

    Args:
        gains: (m, n) finite.

    Returns:
        min(m, n) rows and the column aligned with each.
    """
    if gains.shape[0] > gains.shape[1]:
        columns, rows = best_alignment(gains.T)
        return rows, columns
    num_rows, num_columns = gains.shape
    # A row's cost in a column is its gain's negative. It is never below the sum of the potentials
    # of the two, and equals it where they are aligned.
    row_potential = np.zeros(num_rows)
    column_potential = np.zeros(num_columns + 1)  # the last is where a row to be taken in stands
    row_of = np.full(num_columns + 1, -1)
    for row in range(num_rows):
        column, row_of[num_columns] = num_columns, row
        distance = np.full(num_columns, np.inf)
        previous = np.full(num_columns, num_columns)
        seen = np.zeros(num_columns + 1, dtype=np.bool_)
        while row_of[column] >= 0:
            seen[column] = True
            at = row_of[column]
            cost = -gains[at] - row_potential[at] - column_potential[:-1]
            nearer = ~seen[:-1] & (cost < distance)
            distance[nearer] = cost[nearer]
            previous[nearer] = column
            column = int(np.where(seen[:-1], np.inf, distance).argmin())
            step = distance[column]
            row_potential[row_of[seen]] += step
            column_potential[seen] -= step
            distance[~seen[:-1]] -= step
        while column != num_columns:
            row_of[column] = row_of[previous[column]]
            column = int(previous[column])
    columns = np.flatnonzero(row_of[:-1] >= 0)
    return row_of[columns].astype(np.int64), columns.astype(np.int64)
