"""A small file of every kind of labeled data, and the tasks that read it."""

import json

SNLI = {"gold_label": "neutral", "sentence1": "A man eats.", "sentence2": "Ha.", "pairID": "1"}
ROLES = {
    "sent_id": "s",
    "words": ["It", "fell"],
    "xpos": ["PRP", "VBD"],
    "props": [
        {"pred": 1, "lemma": "fall", "frame": "fall.01", "args": [["ARG1", 0, 0], ["V", 1, 1]]}
    ],
}
SQUAD = {
    "data": [
        {
            "paragraphs": [
                {
                    "context": "It fell.",
                    "qas": [
                        {
                            "id": "1",
                            "question": "What fell?",
                            "answers": [{"text": "It", "answer_start": 0}],
                        }
                    ],
                }
            ]
        }
    ]
}
TREEBANK = """# text = It fell
1\tIt\tit\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tfell\tfall\tVERB\tVBD\t_\t0\troot\t_\t_

"""
ONTONOTES = """#begin document (a); part 000
a 0 0 It PRP (S* - - - Ann * (ARG1*) (3)
a 0 1 fell VBD *) fall 01 1 Ann * (V*) -

a 0 0 It PRP (S* - - - Ann * (3)
a 0 1 . . *) - - - Ann * -

#end document
"""
LITBANK = """#begin document (a); part 0
a\t0\t0\tIt\t_\t_\t_\t_\t_\t_\t_\t_\t(3)
a\t0\t1\tfell\t_\t_\t_\t_\t_\t_\t_\t_\t

a\t0\t0\tIt\t_\t_\t_\t_\t_\t_\t_\t_\t(3)

#end document
"""
SUBJQA = """q_review_id,question,review,human_ans_spans,human_ans_indices
r1,Is it good?,"Very good, yes. ANSWERNOTFOUND",Very good,"(0, 9)"
"""

# By kind: the name and the content of a file as it is published, or nearly so.
FILES = {
    "names": ("eng.train", "-DOCSTART- -X- -X- O\n\nAda NNP B-NP B-PER\nfell VBD B-VP O\n\n"),
    "chunks": ("train.txt", "It PRP B-NP\nfell VBD B-VP\n. . O\n\n"),
    "tags": ("tags.txt", "It\tPRP\nfell\tVBD\n\n"),
    "treebank": ("en-ud-train.conllu", TREEBANK),
    "treebank by another name": ("train.conll", TREEBANK),
    "treebank without comments": ("train.tsv", TREEBANK.partition("\n")[2]),
    "treebank without tags": (
        "plain.conllu",
        TREEBANK.replace("PRON\tPRP", "_\t_").replace("VERB\tVBD", "_\t_"),
    ),
    "roles": ("propbank.jsonl", json.dumps(ROLES) + "\n"),
    "ontonotes": ("a.gold_conll", ONTONOTES),
    "litbank": ("a_brat.conll", LITBANK),
    "snli": ("snli_1.0_train.jsonl", json.dumps(SNLI) + "\n"),
    "sick": (
        "SICK_train.txt",
        "pair_ID\tsentence_A\tsentence_B\tentailment_judgment\n1\tA man eats\tHa\tNEUTRAL\n",
    ),
    "sentiment": ("sst.txt", "(4 (2 (2 The) (2 film)) (4 works))\n(2 (2 It) (2 fell))\n"),
    "penn treebank": ("wsj.mrg", "( (S (NP (DT The) (NN film))\n     (VP (VBZ works))) )\n"),
    "squad": ("train-v1.1.json", json.dumps(SQUAD)),
    "squad, indented": ("squad.json", json.dumps(SQUAD, indent=4)),
    "subjqa": ("books.csv", SUBJQA),
    "text": ("text.txt", "It fell .\nThe film works .\n"),
    "text of two words a line": ("two.txt", "It fell\nIt works\n"),
    "paragraphs": ("book.txt", "It fell. The film, they log, works.\n\nIt does.\n"),
    "csv": ("table.csv", "word,tag\nIt,PRP\nfell,VBD\n"),
    "labeled csv": ("reviews.csv", "text,label\nIt works,good\nIt fell,bad\n"),
    "labeled jsonl": ("reviews.jsonl", '{"text": "It works", "label": "good"}\n'),
    "empty": ("empty.txt", ""),
    "blank": ("blank.txt", "\n\n\n"),
}

# The kinds that each task reads. Names and chunks look alike, and running text with the same number
# of words per line cannot be distinguished from columns.
READABLE = {
    "classify": {"labeled csv", "labeled jsonl"},
    "pos": {"tags", "treebank", "text of two words a line"},
    "ner": {"names", "chunks"},
    "chunk": {"names", "chunks"},
    "srl": {"roles", "ontonotes"},
    "parse": {
        "treebank",
        "treebank by another name",
        "treebank without comments",
        "treebank without tags",
    },
    "nli": {"snli", "sick"},
    "sst": {"sentiment"},
    "qa": {"squad", "squad, indented", "subjqa"},
    "coref": {"ontonotes", "litbank"},
}
