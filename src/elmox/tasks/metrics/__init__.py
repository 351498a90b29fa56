"""Scores that several tasks share; a metric of one task is in that task's folder.

All scores are percentages. Scores of single items (a document, a sentence, a question) add up, so
that a bootstrap over items does not have to score them again.
"""
