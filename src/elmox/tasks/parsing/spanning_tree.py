"""The best tree of a sentence: Chu and Liu's (1965) and Edmonds' (1967) algorithm.

Every word takes its best head. Where heads run in a circle, the circle becomes one node: an edge
into it is worth what it gains over the edge that it would replace, and the node takes the best in
turn. Undone from the last circle to the first, that leaves a tree, and none has a higher score.

A tree shall have one word whose head is the root. So nodes take heads among each other until one is
left, and that one takes the root: as if the root cost more than all else together, but without such
a number, which would cost precision. It works out because no circle has the root in it.

Growing one path of heads instead of searching all words for circles (Tarjan 1977), it takes time
and memory as the square of the sentence's length.
"""

import numpy as np
from numpy.typing import NDArray

ROOT = 0


def best_tree(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the heads of the tree with the highest sum of scores.

    Ties are broken the same way every time.

    Args:
        scores: (T, T+1) of each head for each word, all finite. Column 0 is the root, column i
            word i, counted from 1. The score of a word as its own head is ignored.

    Returns:
        (T,) indices of heads; exactly one is `ROOT`.
    """
    num_words = len(scores)
    assert num_words, "a sentence without words"
    assert scores.shape == (num_words, num_words + 1), f"scores {scores.shape}, expected (T, T+1)"
    weights = np.full((num_words + 1, num_words + 1), -np.inf)  # to, from; nothing goes to the root
    weights[1:] = scores
    np.fill_diagonal(weights[1:, 1:], 0)
    assert np.isfinite(weights[1:]).all(), "scores that are not finite"
    np.fill_diagonal(weights, -np.inf)
    heads = weights[1:].argmax(1)
    return heads if is_tree(heads) else _Contraction(weights).heads()


def is_tree(heads: NDArray[np.int64]) -> bool:
    """Return whether these head indices, (T,), form a tree with one word at the root."""
    return np.count_nonzero(heads == ROOT) == 1 and not has_cycle(heads)


def has_cycle(heads: NDArray[np.int64]) -> bool:
    """Return whether the head indices, (T,), fail to lead from some word to the root."""
    ancestors = np.concatenate([[ROOT], heads])
    for _ in range(len(heads).bit_length()):  # each time twice as far up
        ancestors = ancestors[ancestors]
    return bool(ancestors.any())


class _Contraction:
    """A graph whose circles become nodes until one node is left.

    A node goes by the number of one of its words. Circles within circles are a forest: its leaves
    are the words, by their numbers; each circle is numbered as it is found, above its members.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        """Take over weights (T+1, T+1), to and from; -inf where there is no edge."""
        size = len(weights)
        self._weights = weights
        self._edges = np.arange(size * size).reshape(size, size)  # the words' edge behind each
        self._all = np.arange(size)
        self._taken = np.zeros(size)  # the weight of each node's edge, once it has one
        self._tree = list(range(size))  # where each node is in the forest
        self._above = [-1] * size  # in the forest
        self._members: dict[int, list[int]] = {}  # of each circle, in the forest
        self._entries: dict[int, int] = {}  # the edge taken by each word and circle of the forest

    def heads(self) -> NDArray[np.int64]:
        """The heads of the words, (T,)."""
        path = [1]  # each node's head is the next one
        places = [-1] * len(self._all)
        places[1], num_nodes = 0, len(self._all) - 1
        while num_nodes > 1:
            last = path[-1]
            head = int(self._weights[last, 1:].argmax()) + 1
            self._take(last, head)
            if places[head] < 0:
                places[head] = len(path)
                path.append(head)
            else:
                circle = path[places[head] :]
                self._contract(circle)
                del path[places[head] + 1 :]  # the first goes on as the whole circle
                num_nodes -= len(circle) - 1
        self._take(path[0], ROOT)
        return self._undone(self._tree[path[0]])

    def _take(self, node: int, head: int) -> None:
        self._taken[node] = self._weights[node, head]
        self._entries[self._tree[node]] = int(self._edges[node, head])

    def _contract(self, circle: list[int]) -> None:
        """Make the first node of a circle stand for all of it."""
        weights, edges, every = self._weights, self._edges, self._all
        first, nodes = circle[0], np.array(circle)
        into = weights[nodes] - self._taken[nodes, None]  # (K, T+1)
        best = into.argmax(0)
        weights[first], edges[first] = into[best, every], edges[nodes[best], every]
        best = nodes[weights[:, nodes].argmax(1)]
        weights[:, first], edges[:, first] = weights[every, best], edges[every, best]
        weights[:, nodes[1:]] = weights[first, first] = -np.inf
        number = len(self._above)
        self._above.append(-1)
        self._members[number] = [self._tree[node] for node in circle]
        for member in self._members[number]:
            self._above[member] = number
        self._tree[first] = number

    def _undone(self, top: int) -> NDArray[np.int64]:
        """An edge into a circle ends at one of its words: all others there keep their own."""
        heads = np.zeros(len(self._all), np.int64)
        open_ = [top]
        while open_:
            entered = open_.pop()
            node, heads[node] = divmod(self._entries[entered], len(self._all))
            while node != entered:
                circle = self._above[node]
                open_ += [member for member in self._members[circle] if member != node]
                node = circle
        return heads[1:]
