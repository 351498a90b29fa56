"""How well a task is done, counted as its official scorer counts. All figures are percent.

What is scored by itself (a document, a sentence, a question) has a function of its own, and scores
of several add up: a bootstrap over them needs no second scoring.
"""
